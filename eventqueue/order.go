package eventqueue

// share is the interval of the second ring: while both rings have keys, one turn in share goes to
// the keys without live events.
const share = 8

// LiveFirst sets whether objects with live events come before objects that have only events of the
// first list or of a resync, which come in thousands. One queue in eight still belongs to the
// second group, so that it does not starve. The events of one object keep their order in any case.
// [WithLiveFirst] sets it from the beginning. A controller turns it on by default.
func (c *Collection[T]) LiveFirst(on bool) {
	c.lock()
	defer c.mu.Unlock()
	if c.isClosed() || c.liveFirst == on {
		return
	}
	c.liveFirst = on
	from := &c.ready[0]
	if !on {
		from = &c.ready[1]
	}
	for l := from.next; l != from; {
		next := l.next
		c.reclassLocked(l)
		l = next
	}
}

func (c *Collection[T]) emptyRings() {
	for i := range c.ready {
		ring := &c.ready[i]
		ring.next, ring.prev = ring, ring
	}
}

// ringOf returns the ring in which a queue waits: the second one if the queue has no live event and
// live events come first, and else the first one.
func (c *Collection[T]) ringOf(q *Queue[T]) *line[T] {
	if c.liveFirst && !q.live {
		return &c.ready[1]
	}
	return &c.ready[0]
}

// readyLocked puts a key behind all others that are ready, if it is not there yet.
func (c *Collection[T]) readyLocked(l *line[T]) {
	if l.ring == nil {
		l.pushBack(c.ringOf(l.waiting))
	}
}

// reclassLocked moves a ready key to the end of the ring where it belongs. It does nothing if the
// key is already in that ring or has no place.
func (c *Collection[T]) reclassLocked(l *line[T]) {
	if ring := c.ringOf(l.waiting); l.ring != nil && l.ring != ring {
		l.unlink()
		l.pushBack(ring)
	}
}

// nextLocked returns the key whose turn it is, or nil.
func (c *Collection[T]) nextLocked() *line[T] {
	first, second := c.firstFreeLocked(&c.ready[0]), c.firstFreeLocked(&c.ready[1])
	switch {
	case second == nil:
		return first
	case first == nil || c.turns == share-1:
		c.turns = 0
		return second
	default:
		c.turns++
		return first
	}
}

// firstFreeLocked returns the first key of a ring that is not out, or nil. It removes the keys
// before it from the ring until they are back. Each key is thus passed over once, however many are
// out.
func (c *Collection[T]) firstFreeLocked(ring *line[T]) *line[T] {
	for ring.next != ring {
		l := ring.next
		if l.out == nil {
			return l
		}
		c.passes++
		l.pass(c.passes + 1)
	}
	return nil
}

// returnLocked gives a key that is back its turn, if the turn came while the key was out.
func (c *Collection[T]) returnLocked(l *line[T]) {
	c.reclassLocked(l)
	if l.passed != 0 && !l.linked() {
		l.pushBy(l.ring)
	}
}

// idleLocked reports whether nothing is ready or out.
func (c *Collection[T]) idleLocked() bool {
	return c.isClosed() || c.counters.out == 0 &&
		c.ready[0].next == &c.ready[0] && c.ready[1].next == &c.ready[1]
}
