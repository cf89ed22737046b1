package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// replaceBatch gathers a list that becomes the content of a cache, or of a partition. It runs the
// index functions as soon as an object comes, so that a compact store decodes each object only
// once.
type replaceBatch[T any] struct {
	of *Partition[T]
	// streamed is true if the list comes object by object, so that its budget counts now.
	streamed bool

	// all has the last write of each key, and all rejected objects without a key. It is in the
	// order of keys while at is nil.
	all []listed[T]
	// at has the index in all of each key. It is nil as long as the writes come in the order of
	// keys.
	at      map[Key]int
	writes  int   // how many came
	refused int   // the sum of listed.refused
	ended   error // why the batch accepts no more writes
}

// listed is a write of a list. A write without a key is a rejection.
type listed[T any] struct {
	key      Key
	version  Version
	object   T
	number   int // the number of the write
	what     listing
	override bool  // true if the write gives the version
	share    int64 // of the budget: see Budget.gather
	err      error // of a rejection

	// refused counts the states that the batch rejected before Commit, since it last took a state of
	// the key. It is 0 without a limited budget.
	refused int

	// entry is nil if it is not prepared. indexes is the number of indexes whose terms it has.
	// Cache.writer guards the terms.
	entry   *entry[T]
	indexes int
}

// listing says what the commit does with a write.
type listing uint8

const (
	isListed     listing = iota
	isKept               // the store has the listed version, or the listed one is outdated
	isRejected           // the key keeps its old object
	isOutOfScope         // rejected; the commit deletes an old object of this partition under the key
)

func (l *listed[T]) reject(err error) {
	var none T
	l.what, l.object, l.err = isRejected, none, err
}

func newReplace[T any](of *Partition[T], streamed bool, expected int) *replaceBatch[T] {
	return &replaceBatch[T]{of: of, streamed: streamed, all: make([]listed[T], 0, expected)}
}

func (b *replaceBatch[T]) Write(w Write[T]) error {
	c := b.of.of
	c.writer.Lock()
	defer c.writer.Unlock()
	if b.refuse() != nil {
		return b.ended
	}
	l := listed[T]{object: w.Object, override: w.Version != (Version{})}
	var err error
	l.key, l.version, err = b.of.identify(&w)
	refused := b.supersede(l.key)
	if w.Err == nil && w.Type == Deletion {
		return nil // the key is taken back
	}
	if err != nil {
		l.reject(err)
	}
	if w.Err == nil && b.streamed && c.budget != nil && c.budget.limit > 0 && !b.gather(&l) {
		refused++
	}
	if l.what == isRejected {
		l.refused = refused
	}
	if l.what == isListed && len(c.indexes) > 0 && b.changed(&l) && b.of.checkOwner(l.key, l.version) == nil {
		_ = b.prepare(&l) // Commit tries again and returns the error
	}
	if b.add(l); b.refused > maxOverBudget {
		b.reset()
		b.ended = fmt.Errorf("list was ended: %w: more than %d of its objects are beyond %d bytes", ErrOverBudget, maxOverBudget, c.budget.limit)
	}
	return b.ended
}

func (b *replaceBatch[T]) Keep(key Key) {
	b.of.of.writer.Lock()
	defer b.of.of.writer.Unlock()
	if b.ended != nil {
		return
	}
	key, err := b.of.normalize(key)
	l := listed[T]{key: key, what: isKept}
	if err != nil {
		l.reject(err)
	}
	b.supersede(key)
	b.add(l)
}

// refuse ends the batch if its partition cannot be replaced. It returns why the batch is ended, or
// nil. The caller of refuse, and of all methods below except sort, holds writer.
func (b *replaceBatch[T]) refuse() error {
	switch p := b.of; {
	case b.ended != nil:
	case p.dropped:
		b.ended = p.scopeError(errDropped)
	case p == p.of.whole && len(p.of.partitions) > 0:
		b.ended = p.scopeError(errOverlap)
	}
	return b.ended
}

// add appends a write whose key all does not have.
func (b *replaceBatch[T]) add(l listed[T]) {
	if b.at != nil {
		b.at[l.key] = len(b.all)
	}
	l.number = b.writes
	b.writes++
	b.refused += l.refused
	b.all = append(b.all, l)
}

// supersede removes an earlier write of a key, before another write of the key comes. So a list in
// which a few objects change without end takes bounded memory. It returns listed.refused.
func (b *replaceBatch[T]) supersede(key Key) (refused int) {
	last := len(b.all) - 1
	if last < 0 || b.at == nil && b.all[last].key.Compare(key) < 0 {
		return 0
	}
	if b.at == nil {
		b.at = make(map[Key]int, len(b.all))
		for i := range b.all {
			b.at[b.all[i].key] = i
		}
	}
	i, ok := b.at[key]
	if !ok || key == (Key{}) {
		return 0
	}
	refused = b.all[i].refused
	b.release(&b.all[i])
	b.all[i] = b.all[last]
	b.at[b.all[i].key] = i
	delete(b.at, key)
	b.all[last] = listed[T]{}
	b.all = b.all[:last]
	return refused
}

// release gives back the index values and the budget of a write.
func (b *replaceBatch[T]) release(l *listed[T]) {
	if l.entry != nil {
		b.of.of.release(l.entry.terms())
		l.entry = nil
	}
	b.of.of.budget.giveBack(l.share)
	b.refused -= l.refused
}

// reset releases and forgets all writes.
func (b *replaceBatch[T]) reset() {
	for i := range b.all {
		b.release(&b.all[i])
	}
	*b = replaceBatch[T]{of: b.of, streamed: b.streamed}
}

// Discard takes the lock only if there are writes to forget.
func (b *replaceBatch[T]) Discard() {
	if len(b.all) > 0 {
		b.of.of.writer.Lock()
		defer b.of.of.writer.Unlock()
	}
	b.reset()
}

// gather counts an object in the budget. It returns false for a rejected object, and rejects an
// object that exceeds the budget.
func (b *replaceBatch[T]) gather(l *listed[T]) bool {
	if l.what == isListed {
		var err error
		if l.share, err = b.of.of.budget.gather(b.of.of, l.key, l.object); err == nil {
			return true
		}
		l.reject(err)
	}
	// A substring would keep the memory of the whole object.
	l.key = Key{strings.Clone(l.key.Cluster), strings.Clone(l.key.Namespace), strings.Clone(l.key.Name)}
	l.version = Version{types.UID(strings.Clone(string(l.version.UID))), strings.Clone(l.version.ResourceVersion)}
	return false
}

// changed reports whether the cache holds another state of an object, or none.
func (b *replaceBatch[T]) changed(l *listed[T]) bool {
	held, ok := b.of.of.table.entry(l.key).held()
	return !ok || !held.Equal(l.version)
}

// prepare makes the entry of an object, again if the cache has a new index.
func (b *replaceBatch[T]) prepare(l *listed[T]) (err error) {
	c := b.of.of
	if l.entry != nil && l.indexes == len(c.indexes) {
		return nil
	}
	if l.entry != nil {
		c.release(l.entry.terms())
	}
	var version Version
	if l.override {
		version = l.version
	}
	l.indexes = len(c.indexes)
	l.entry, err = c.prepare(l.key, l.object, version)
	return err
}

func (b *replaceBatch[T]) Commit(resourceVersion string) error {
	b.sort()
	p, c := b.of, b.of.of
	c.writer.Lock()
	defer c.writer.Unlock()
	defer b.reset()
	if b.refuse() != nil {
		return b.ended
	}
	c.budget.begin()
	for i := range b.all {
		b.check(&b.all[i])
	}
	mutations, rejections, missing := b.outcome(b.deletions())
	s := txn[T]{
		origin:          List,
		initial:         !p.complete,
		mutations:       mutations,
		resourceVersion: resourceVersion,
		seen:            resourceVersion,
		replaced:        true,
		lowered:         lower(resourceVersion, p.resourceVersion),
	}
	if len(missing) > 0 {
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

// sort puts the writes in the order of keys. It runs without the lock, because a list may be long.
func (b *replaceBatch[T]) sort() {
	if b.at == nil {
		return
	}
	order := make([]position, len(b.all))
	for i := range b.all {
		order[i] = position{b.all[i].key, b.all[i].number, i}
	}
	sortPositions(order)
	all := make([]listed[T], len(order))
	for i, o := range order {
		all[i] = b.all[o.at]
	}
	b.all = all
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

// check decides whether a write is stored, kept or rejected, apart from the budget.
func (b *replaceBatch[T]) check(l *listed[T]) {
	p := b.of
	ownerErr := p.checkOwner(l.key, l.version)
	switch l.what {
	case isKept:
		if _, taken := p.takenOver[l.key]; !taken && p.of.table.entry(l.key) == nil {
			l.reject(ErrNotHeld)
		}
	case isListed:
		if ownerErr != nil {
			l.reject(ownerErr)
		} else if !b.changed(l) || p.outdated(l.key, l.version) {
			l.what = isKept
		} else if err := b.prepare(l); err != nil {
			l.reject(err)
		}
	}
	if l.what == isRejected && ownerErr != nil {
		l.what = isOutOfScope
	}
}

// deletions returns the mutations that delete the objects that the list does not have.
func (b *replaceBatch[T]) deletions() []mutation[T] {
	withoutKey := make(map[types.UID]bool)
	at := 0
	for ; at < len(b.all) && b.all[at].key == (Key{}); at++ {
		withoutKey[b.all[at].version.UID] = true
	}
	delete(withoutKey, "")
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
			b.of.of.budget.leave(b.of.of, key)
			gone = append(gone, mutation[T]{key: key})
		}
	}
	return gone
}

// outcome appends the mutations of the listed objects. After the deletions, it rejects the objects
// that exceed the budget, in the order of keys. It returns the rejections in the order of the
// writes, and the keys that hold back the resource version.
func (b *replaceBatch[T]) outcome(mutations []mutation[T]) (_ []mutation[T], rejections []Rejection, missing rejectedKeys) {
	c := b.of.of
	var rejected []position
	mutations = slices.Grow(mutations, len(b.all))
	for i := range b.all {
		l := &b.all[i]
		if l.what == isListed {
			err := c.budget.admit(c, l.key, l.object)
			if err == nil {
				mutations = append(mutations, mutation[T]{key: l.key, new: l.entry})
				l.entry = nil
				continue
			}
			l.reject(err)
		}
		if l.what == isRejected {
			missing.add(l.key)
		}
		if l.what >= isRejected {
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
