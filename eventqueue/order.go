package eventqueue

// share is the interval of the second ring: while both rings have keys, one turn in share goes to
// the keys without live events.
const share = 8

func (c *Collection[T]) emptyRings() {
	for i := range c.ready {
		ring := &c.ready[i]
		ring.next, ring.prev = ring, ring
	}
}

// ringOf returns the ring in which a key waits: the second one if it has no live event and live
// events come first, and else the first one.
func (c *Collection[T]) ringOf(k *keyState[T]) *place[T] {
	if c.priority && !k.waiting.live {
		return &c.ready[1]
	}
	return &c.ready[0]
}

// readyLocked puts a key behind all others that are ready, if it is not there yet.
func (c *Collection[T]) readyLocked(k *keyState[T]) {
	if k.place.ring == nil {
		ring := c.ringOf(k)
		k.link(ring, ring)
	}
}

// reclassLocked moves a ready key to the end of the ring where it belongs. It does nothing if the
// key is already in that ring or has no place.
func (c *Collection[T]) reclassLocked(k *keyState[T]) {
	if ring := c.ringOf(k); k.place.ring != nil && k.place.ring != ring {
		k.unlink()
		k.link(ring, ring)
	}
}

// nextLocked returns the key whose turn it is, or nil.
func (c *Collection[T]) nextLocked() *keyState[T] {
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
func (c *Collection[T]) firstFreeLocked(ring *place[T]) *keyState[T] {
	for ring.next != ring {
		k := ring.next.of
		if k.out == nil {
			return k
		}
		c.passes++
		k.unlink()
		k.place.ring, k.place.passed = ring, c.passes+1
	}
	return nil
}

// returnLocked gives a key that is back its turn, if the turn came while the key was out. The key
// comes in front of its ring, but behind the keys whose turn came earlier.
func (c *Collection[T]) returnLocked(k *keyState[T]) {
	c.reclassLocked(k)
	if k.place.passed == 0 || k.linked() {
		return
	}
	next := k.place.ring.next
	for next.passed != 0 && next.passed < k.place.passed {
		next = next.next
	}
	k.link(next, k.place.ring)
}

// idleLocked reports whether nothing is ready or out.
func (c *Collection[T]) idleLocked() bool {
	return c.IsClosed() || c.counters.InFlight == 0 &&
		c.ready[0].next == &c.ready[0] && c.ready[1].next == &c.ready[1]
}

// place is the place of a key in a ring of ready keys. The head of a ring is a place without a key.
type place[T any] struct {
	// next and prev are nil while the key is not in a ring. If an event comes while the key is out,
	// the key is linked at once, so that it keeps its place.
	next, prev *place[T]
	of         *keyState[T]

	// ring is the head of the ring, or nil if the key has no place.
	ring *place[T]

	// passed is not 0 if the key's turn came while the key was out; a smaller value means an
	// earlier turn. The key is then unlinked until its queue is back, so that consumers pass it
	// over only once.
	passed uint64
}

func (k *keyState[T]) linked() bool { return k.place.next != nil }

// link puts a key that is not linked into a ring, before a place. The head is the end of a ring.
func (k *keyState[T]) link(before, ring *place[T]) {
	p := &k.place
	p.next, p.prev, p.of, p.ring = before, before.prev, k, ring
	p.prev.next, p.next.prev = p, p
}

// unlink takes the key's place away, if it has one.
func (k *keyState[T]) unlink() {
	if p := &k.place; p.next != nil {
		p.prev.next, p.next.prev = p.next, p.prev
	}
	k.place = place[T]{}
}
