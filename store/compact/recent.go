package compact

import (
	"slices"
	"sync"
)

// recent bounds how many objects are kept decoded. What was used since room was last
// needed stays for one more round: the clock algorithm, which costs a reader one flag.
type recent[T any] struct {
	limit int

	// mu protects the fields below it.
	mu    sync.Mutex
	slots []*Packed[T] // those that are kept, at most limit
	hand  int
	// writes has, of those who write now, how much was staged when they began, since ever:
	// what they pack stays decoded until they are done, for the indexes. What was staged
	// before all of them is released, so that writers who take turns keep no more and more.
	writes []int
	staged []*Packed[T]
	before int // how much was staged and released
}

// keep keeps an object decoded that was read, and returns the one that is: somebody else
// may have been quicker.
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

// stage keeps an object decoded that was just packed: for the write that it is part of, or
// as one that was read.
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

// placeLocked finds room for one more.
func (r *recent[T]) placeLocked(p *Packed[T]) {
	if len(r.slots) < r.limit {
		r.slots = append(r.slots, p)
		return
	}
	// Readers may set the flags again meanwhile: the second round ends in any case.
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

// series is what some writes that belong together keep decoded, such as those of one list.
type series[T any] struct {
	kept []*Packed[T]
	next int // the place of the oldest
}

// write lets what is packed stay decoded until done is called.
func (r *recent[T]) write() (done func()) { return r.writeOf(new(series[T])) }

// writeOf is write for one write of several that belong together.
func (r *recent[T]) writeOf(s *series[T]) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := r.before + len(r.staged)
	r.writes = append(r.writes, began)
	return func() { r.written(began, s) }
}

// written ends a write that began after so much was staged. Of what nobody needs any more,
// the last are kept: their events are still to be handled. Those of one series do not drive
// out more than half of what was read.
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

func (r *recent[T]) half() int { return (r.limit + 1) / 2 }

// followLocked finds room for the next one of a series: that of the oldest, if it has enough.
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
