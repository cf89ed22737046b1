package eventqueue

// share says how often what can wait goes before what is live, if both wait: once in
// so many times.
const share = 8

// LiveFirst says whether objects of which there is news go before those of which only
// events of the first list or of a resync wait, as they come in thousands. One queue
// in eight is then still one of those, so that they do not starve. The events of one
// object keep their order in any case. [WithLiveFirst] says it from the beginning;
// a controller does so unless it is told not to.
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

// ringOf returns the ring in which a queue waits: the first one, or if it can wait for
// news of other objects, the second one.
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

// reclassLocked moves a key that is ready to the end of the ring where it belongs,
// unless it is in that or has no place.
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

// firstFreeLocked returns the first key of a ring that is not out, or nil. Those before
// it leave the ring until they are back: each is passed over once, however many are out.
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

// returnLocked gives a key that is back its turn, if that came while it was out.
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
