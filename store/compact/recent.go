package compact

import "sync"

// recent bounds how many objects are kept decoded. What was used since room was last
// needed stays for one more round: the clock algorithm, which costs a reader one flag.
type recent[T any] struct {
	limit int

	// mu protects the fields below it.
	mu    sync.Mutex
	slots []*Packed[T] // those that are kept, at most limit
	hand  int
	// writes counts those who write now: what they pack stays decoded until the last of
	// them is done, for the indexes.
	writes int
	staged []*Packed[T]
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
	case r.writes > 0:
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

// write lets what is packed stay decoded until done is called.
func (r *recent[T]) write() (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	return r.written
}

// written ends a write. Of what was staged, the last are kept: their events are still to be
// handled. They do not drive out more than half of what was read.
func (r *recent[T]) written() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes--; r.writes > 0 {
		return
	}
	staged := r.staged
	r.staged = nil
	kept := min(len(staged), (r.limit+1)/2)
	for _, p := range staged[:len(staged)-kept] {
		p.live.Store(nil)
	}
	for _, p := range staged[len(staged)-kept:] {
		r.placeLocked(p)
	}
}
