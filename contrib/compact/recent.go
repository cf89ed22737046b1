package compact

import (
	"slices"
	"sync"
)

// recent bounds how many objects stay decoded. It evicts by the clock algorithm: an object that was
// used since the last round stays for one more round. That costs a reader one flag.
type recent[T any] struct {
	limit int

	// mu protects the fields below it.
	mu    sync.Mutex
	slots []*Packed[T] // the objects that stay decoded, at most limit
	hand  int
	// writes has an element for each running write: the number of objects that had been staged when
	// it began, counted from the first. Objects of a running write stay decoded until it ends, for
	// the indexes. When a write ends, recent releases the objects that were staged before all
	// running writes. So writers that take turns keep a bounded number of objects.
	writes []int
	staged []*Packed[T]
	before int // number of objects that were staged and released
}

// keep keeps a decoded object that was read. It returns the object that another reader already
// keeps, if there is one.
func (r *recent[T]) keep(p *Packed[T], object T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := p.live.Load(); l != nil {
		return l.object
	}
	if r.limit > 0 {
		r.placeLocked(p)
		p.live.Store(&live[T]{object: object})
	}
	return object
}

// stage keeps an object decoded that was just packed. During a write it stays until the write ends,
// and otherwise like an object that was read.
func (r *recent[T]) stage(p *Packed[T], object T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.writes) > 0:
		r.staged = append(r.staged, p)
	case r.limit > 0:
		r.placeLocked(p)
	default:
		return
	}
	p.live.Store(&live[T]{object: object})
}

// placeLocked finds a slot for one more object, and evicts another if all slots are full.
func (r *recent[T]) placeLocked(p *Packed[T]) {
	if len(r.slots) < r.limit {
		r.slots = append(r.slots, p)
		return
	}
	// Readers may set the flags again meanwhile, so the loop ends after the second round.
	for range 2 * len(r.slots) {
		if l := r.slots[r.hand].live.Load(); l == nil || !l.used.Swap(false) {
			break
		}
		r.hand = (r.hand + 1) % len(r.slots)
	}
	r.slots[r.hand].live.Store(nil)
	r.slots[r.hand] = p
	r.hand = (r.hand + 1) % len(r.slots)
}

// series has the objects that several related writes keep decoded, such as the writes of one list.
type series[T any] struct {
	kept []*Packed[T]
	next int // position of the oldest
}

// write keeps packed objects decoded until done is called.
func (r *recent[T]) write() (done func()) { return r.writeOf(new(series[T])) }

// writeOf is write for one of several related writes.
func (r *recent[T]) writeOf(s *series[T]) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := r.before + len(r.staged)
	r.writes = append(r.writes, began)
	return func() { r.written(began, s) }
}

// written ends a write. began is the number of objects that had been staged before it. written
// keeps the last of the released objects decoded, because consumers have yet to handle their
// events. The objects of one series take at most half of the slots from objects that were read.
func (r *recent[T]) written(began int, of *series[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.writes, began); at >= 0 {
		r.writes = slices.Delete(r.writes, at, at+1)
	}
	over := len(r.staged)
	if len(r.writes) > 0 {
		over = slices.Min(r.writes) - r.before
	}
	if over == 0 {
		return // a longer write holds all of them, which may be many
	}
	released := r.staged[:over]
	kept := min(over, r.half())
	for _, p := range released[:over-kept] {
		p.live.Store(nil)
	}
	for _, p := range released[over-kept:] {
		r.followLocked(of, p)
	}
	r.before += over
	if over == len(r.staged) {
		r.staged = nil
		return
	}
	r.staged = slices.Clone(r.staged[over:])
}

func (r *recent[T]) half() int { return r.limit - r.limit/2 }

// followLocked finds a slot for the next object of a series. If the series has enough slots, it
// reuses the slot of its oldest object.
func (r *recent[T]) followLocked(s *series[T], p *Packed[T]) {
	if len(s.kept) < r.half() {
		s.kept = append(s.kept, p)
		r.placeLocked(p)
		return
	}
	oldest := s.kept[s.next]
	s.kept[s.next] = p
	s.next = (s.next + 1) % len(s.kept)
	if at := slices.Index(r.slots, oldest); at >= 0 {
		oldest.live.Store(nil)
		r.slots[at] = p
		return
	}
	r.placeLocked(p)
}
