package store

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// replaceBatch gathers a list that becomes the content of a cache, or of a partition. It runs the
// index functions as soon as an object comes, so that a compact store decodes each object only
// once.
type replaceBatch[T any] struct {
	of *Partition[T]

	// all has the writes of the list. If ordered is true, they are in the order of keys, one for
	// each key. Otherwise settle sorts them.
	all     []listed[T]
	ordered bool
	settled int // len(all) when settle ran last
	next    int // the number of the next write

	// indexes is the number of indexes of the cache when the batch prepared its entries. prepared
	// is true if the batch has prepared an entry.
	indexes  int
	prepared bool
	// gathered counts a streamed list in the budget of the cache; nil if there is no limit.
	gathered *gathered
	streamed bool
	ended    error // why the batch accepts no more writes
}

func newReplace[T any](of *Partition[T], streamed bool, expected int) *replaceBatch[T] {
	return &replaceBatch[T]{of: of, ordered: true, streamed: streamed, all: make([]listed[T], 0, expected)}
}

func (b *replaceBatch[T]) Write(w Write[T]) error {
	l, err := b.write(&w)
	if err == nil {
		b.add(l)
	}
	return err
}

func (b *replaceBatch[T]) Keep(key Key) {
	if b.ended != nil {
		return
	}
	key, err := b.of.normalize(key)
	l := listed[T]{key: key, what: isKept}
	if err != nil {
		l.reject(err)
	}
	if b.gathered != nil {
		b.of.of.writer.Lock()
		b.takeBack(l.key)
		b.gathered.forgive(l.key)
		b.of.of.writer.Unlock()
	}
	b.add(l)
}

func (b *replaceBatch[T]) Commit(resourceVersion string) error {
	defer b.Discard()
	b.settle()
	b.of.of.writer.Lock()
	defer b.of.of.writer.Unlock()
	return b.commit(resourceVersion)
}

// Discard takes the lock only if the batch has index values or budget to release.
func (b *replaceBatch[T]) Discard() {
	if b.prepared || b.gathered != nil {
		b.of.of.writer.Lock()
		defer b.of.of.writer.Unlock()
		b.giveBack()
	}
	*b = replaceBatch[T]{of: b.of, ordered: true, streamed: b.streamed}
}

// giveBack releases the index values and the budget of the batch. The caller holds writer.
func (b *replaceBatch[T]) giveBack() {
	for i := range b.all {
		b.release(&b.all[i])
	}
	if b.gathered != nil {
		for _, share := range b.gathered.shares {
			b.of.of.budget.giveBack(share)
		}
		b.gathered = nil
	}
}

// release releases a prepared entry. The caller holds writer.
func (b *replaceBatch[T]) release(l *listed[T]) {
	if l.entry != nil {
		b.of.of.release(l.entry.terms())
		l.entry = nil
	}
}

// releaseOutdated releases all entries if an index was added since they were prepared.
func (b *replaceBatch[T]) releaseOutdated() {
	if b.indexes == len(b.of.of.indexes) {
		return
	}
	for i := range b.all {
		b.release(&b.all[i])
	}
	b.indexes = len(b.of.of.indexes)
}

// write identifies a write, counts it in the budget and prepares its entry.
func (b *replaceBatch[T]) write(w *Write[T]) (l listed[T], err error) {
	c := b.of.of
	c.writer.Lock()
	defer c.writer.Unlock()
	if b.ended == nil {
		b.ended = b.refusal()
	}
	if b.ended != nil {
		return l, b.ended
	}
	l = b.identify(w)
	if w.Err == nil && b.streamed && c.budget != nil && c.budget.limit > 0 && !b.gather(&l) {
		b.giveBack()
		b.all = nil
		b.ended = fmt.Errorf("list was ended: %w: more than %d of its objects are beyond %d bytes", ErrOverBudget, maxOverBudget, c.budget.limit)
		return l, b.ended
	}
	if l.what == isListed && len(c.indexes) > 0 {
		b.prepare(&l)
	}
	return l, nil
}

// refusal returns why the partition cannot be replaced, or nil. The caller holds writer.
func (b *replaceBatch[T]) refusal() error {
	switch p := b.of; {
	case p.dropped:
		return p.scopeError(errDropped)
	case p == p.of.whole && len(p.of.partitions) > 0:
		return p.scopeError(errOverlap)
	}
	return nil
}

// identify derives the key and the version of a write.
func (b *replaceBatch[T]) identify(w *Write[T]) (l listed[T]) {
	var err error
	switch {
	case w.Err != nil:
		l.version, err = w.Version, w.Err
		l.key, _ = b.of.normalize(w.Key)
	case w.Type == Addition || w.Type == Modification:
		l.key, l.version, err = b.of.recognise(w)
		l.object, l.override = w.Object, w.Version != (Version{})
	case w.Type == Deletion:
		// A Deletion whose key is invalid takes nothing back.
		l.what = isAbsent
		if w.FinalStateKnown {
			l.key, _, _ = b.of.recognise(w)
		} else {
			l.key, _ = b.of.normalize(w.Key)
		}
	default:
		l.version, err = w.Version, errNoWrite
		l.key, _ = b.of.normalize(w.Key)
	}
	if err != nil {
		l.reject(err)
	}
	return l
}

// prepare makes the entry of an object, unless the cache holds the same state. If it fails, check
// returns the error at the commit. The caller holds writer.
func (b *replaceBatch[T]) prepare(l *listed[T]) {
	c := b.of.of
	b.releaseOutdated()
	b.prepared = true
	if held, ok := c.heldByWriter(l.key); ok && held.Equal(l.version) || b.of.checkOwner(l.key, l.version) != nil {
		return
	}
	l.entry, _ = c.prepare(l.key, l.object, l.overrideVersion())
}

// add appends a write of a key. It settles a streamed list when superseded writes may be half of
// the list. So a list in which a few objects change without end takes bounded memory.
func (b *replaceBatch[T]) add(l listed[T]) {
	if l.what == isAbsent && l.key == (Key{}) {
		return
	}
	l.number = b.next
	b.next++
	if n := len(b.all); b.ordered {
		b.ordered = n == 0 || b.all[n-1].key.Compare(l.key) < 0
		if b.ordered && l.what == isAbsent {
			return // there is nothing to take back
		}
	}
	b.all = append(b.all, l)
	if b.streamed && !b.ordered && len(b.all) >= 2*b.settled+maxScratch {
		b.settle()
	}
}

// settle sorts the writes by key and keeps the last one of each key, unless it is a Deletion. It sorts
// without the lock, because a list may be long.
func (b *replaceBatch[T]) settle() {
	if !b.ordered {
		order := make([]position, len(b.all))
		for i := range b.all {
			order[i] = position{b.all[i].key, b.all[i].number, i}
		}
		sortPositions(order)
		kept := make([]listed[T], 0, len(order))
		var gone []*listed[T]
		for i, o := range order {
			l := &b.all[o.at]
			again := o.key != (Key{}) && i+1 < len(order) && order[i+1].key == o.key
			switch {
			case !again && l.what != isAbsent:
				kept = append(kept, *l)
			case l.entry != nil:
				gone = append(gone, l)
			}
		}
		if len(gone) > 0 {
			b.of.of.writer.Lock()
			for _, l := range gone {
				b.release(l)
			}
			b.of.of.writer.Unlock()
		}
		b.all, b.ordered = kept, true
	}
	b.settled = len(b.all)
}

// position is the key and the number of a write, and its index in all.
type position struct {
	key        Key
	number, at int
}

// sortPositions is not inlined, so that packages with a cache do not compile the sort again.
//
//go:noinline
func sortPositions(all []position) {
	slices.SortFunc(all, func(x, y position) int {
		return cmp.Or(x.key.Compare(y.key), cmp.Compare(x.number, y.number))
	})
}

// commit makes the list the content of the partition. The caller of commit, and of the methods
// below, holds writer.
func (b *replaceBatch[T]) commit(resourceVersion string) error {
	p, c := b.of, b.of.of
	if b.ended == nil {
		b.ended = b.refusal()
	}
	if b.ended != nil {
		return b.ended
	}
	b.releaseOutdated()
	b.prepared = true
	for i := range b.all {
		b.check(&b.all[i])
	}
	mutations := b.deletions()
	b.admit(mutations)
	mutations, rejections, missing := b.outcome(mutations)
	s := txn[T]{
		origin:          List,
		initial:         !p.complete,
		mutations:       mutations,
		resourceVersion: resourceVersion,
		seen:            resourceVersion,
		replaced:        true,
		lowered:         lower(resourceVersion, p.resourceVersion),
	}
	if missing.any() {
		s.resourceVersion = p.resourceVersion
		if s.lowered {
			s.resourceVersion = ""
		}
	}
	c.mu.Lock()
	p.rejected = missing
	c.mu.Unlock()
	c.commit(p, &s)
	return rejectedError(rejections)
}

// check decides whether a write is stored, kept or rejected, apart from the budget.
func (b *replaceBatch[T]) check(l *listed[T]) {
	p, c := b.of, b.of.of
	switch l.what {
	case isKept:
		if _, taken := p.takenOver[l.key]; !taken && c.table.entry(l.key) == nil {
			l.reject(ErrNotHeld)
		}
	case isListed:
		if err := p.checkOwner(l.key, l.version); err != nil {
			l.reject(err)
			break
		}
		if held, ok := c.heldByWriter(l.key); ok && held.Equal(l.version) || p.outdated(l.key, l.version) {
			l.what = isKept
		} else if l.entry == nil {
			var err error
			if l.entry, err = c.prepare(l.key, l.object, l.overrideVersion()); err != nil {
				l.reject(err)
			}
		}
	}
	if l.what == isRejected && p.checkOwner(l.key, l.version) != nil {
		l.what = isOutOfScope
	}
}

// deletions returns the mutations that delete the objects that the list does not have.
func (b *replaceBatch[T]) deletions() []mutation[T] {
	var withoutKey map[types.UID]bool
	at := 0
	for ; at < len(b.all) && b.all[at].key == (Key{}); at++ {
		if uid := b.all[at].version.UID; uid != "" {
			if withoutKey == nil {
				withoutKey = make(map[types.UID]bool)
			}
			withoutKey[uid] = true
		}
	}
	var gone []mutation[T]
	for e := range b.of.held() {
		key := e.key()
		for at < len(b.all) && b.all[at].key.Compare(key) < 0 {
			at++
		}
		if at < len(b.all) && b.all[at].key == key && b.all[at].what <= isRejected {
			continue
		}
		if len(withoutKey) == 0 || !withoutKey[e.known().UID] {
			gone = append(gone, mutation[T]{key: key})
		}
	}
	return gone
}

// admit rejects the objects that exceed the budget, in the order of keys, after the deletions.
func (b *replaceBatch[T]) admit(gone []mutation[T]) {
	c := b.of.of
	if c.budget == nil {
		return
	}
	c.budget.begin()
	for i := range gone {
		c.budget.leave(c, gone[i].key)
	}
	for i := range b.all {
		if l := &b.all[i]; l.what == isListed {
			if err := c.budget.admit(c, l.key, l.object); err != nil {
				l.reject(err)
			}
		}
	}
}

// outcome appends the mutations of the listed objects, and returns the rejections in the order of the
// writes.
func (b *replaceBatch[T]) outcome(mutations []mutation[T]) (_ []mutation[T], rejections []Rejection, missing rejectedKeys) {
	var rejected []position
	mutations = slices.Grow(mutations, len(b.all))
	for i := range b.all {
		switch l := &b.all[i]; l.what {
		case isListed:
			mutations = append(mutations, mutation[T]{key: l.key, new: l.entry})
			l.entry = nil
		case isRejected:
			missing.add(l.key)
			fallthrough
		case isOutOfScope:
			rejected = append(rejected, position{number: l.number, at: i})
		}
	}
	sortPositions(rejected)
	for _, r := range rejected {
		l := &b.all[r.at]
		rejections = append(rejections, Rejection{Key: l.key, Version: l.version, Err: l.err})
	}
	return mutations, rejections, missing
}
