package store

import (
	"fmt"
	"sort"
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

	// writes has the last write of each key. It is in the order of keys while at is nil.
	writes byKey[T]
	// at has the index in writes of each key. It is nil as long as the writes come in the order of
	// keys.
	at      map[Key]int
	keyless []write[T] // rejected objects without a key
	refused int        // how many objects the budget did not admit
	ended   error      // why the batch accepts no more writes
}

// byKey sorts writes. It uses a sort that is not generic, so that packages with a cache do not
// compile the sort again.
type byKey[T any] []write[T]

func (w byKey[T]) Len() int           { return len(w) }
func (w byKey[T]) Less(i, j int) bool { return w[i].key.Compare(w[j].key) < 0 }
func (w byKey[T]) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

func (b *replaceBatch[T]) Write(from Write[T]) error {
	c := b.of.of
	c.writer.Lock()
	defer c.writer.Unlock()
	if b.refuse() != nil {
		return b.ended
	}
	w := b.of.identify(&from)
	b.supersede(w.key)
	if w.what == isDeleted {
		return nil // the key is taken back
	}
	if from.Err == nil && b.streamed && c.budget != nil && c.budget.limit > 0 && !b.gather(&w) {
		if b.refused++; b.refused > maxOverBudget {
			b.reset()
			b.ended = fmt.Errorf("list was ended: %w: more than %d of its objects are beyond %d bytes", ErrOverBudget, maxOverBudget, c.budget.limit)
			return b.ended
		}
	}
	// The object of a held version has probably not changed: then it needs no index values.
	held := c.table.entry(w.key)
	if known, ok := held.held(); w.err == nil && len(c.indexes) > 0 && !(ok && known == w.version) && b.of.checkOwner(w.key) == nil {
		_ = c.prepare(&w, held) // Commit tries again and returns the error
	}
	b.add(w)
	return nil
}

func (b *replaceBatch[T]) Keep(key Key) {
	b.of.of.writer.Lock()
	defer b.of.of.writer.Unlock()
	if b.ended != nil {
		return
	}
	w := write[T]{what: isKept}
	w.key, w.err = b.of.normalize(key)
	b.supersede(w.key)
	b.add(w)
}

// refuse ends the batch if its partition cannot be replaced. It returns why the batch is ended, or
// nil. The caller of refuse, and of all methods below, holds writer.
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

// add appends a write whose key the batch does not have.
func (b *replaceBatch[T]) add(w write[T]) {
	switch {
	case w.key == (Key{}):
		b.keyless = append(b.keyless, w)
		return
	case b.at != nil:
		b.at[w.key] = len(b.writes)
	}
	b.writes = append(b.writes, w)
}

// supersede removes an earlier write of a key, before another write of the key comes. So a list in
// which a few objects change without end takes bounded memory.
func (b *replaceBatch[T]) supersede(key Key) {
	last := len(b.writes) - 1
	if last < 0 || key == (Key{}) || b.at == nil && b.writes[last].key.Compare(key) < 0 {
		return
	}
	if b.at == nil {
		b.at = make(map[Key]int, len(b.writes))
		for i := range b.writes {
			b.at[b.writes[i].key] = i
		}
	}
	i, ok := b.at[key]
	if !ok {
		return
	}
	b.release(&b.writes[i])
	b.writes[i] = b.writes[last]
	b.at[b.writes[i].key] = i
	delete(b.at, key)
	b.writes[last] = write[T]{}
	b.writes = b.writes[:last]
}

// release gives back the index values and the budget of a write.
func (b *replaceBatch[T]) release(w *write[T]) {
	b.of.of.free(w)
	if w.share > 0 {
		b.of.of.budget.count(w, -w.share)
	}
}

// reset releases and forgets all writes.
func (b *replaceBatch[T]) reset() {
	for i := range b.writes {
		b.release(&b.writes[i])
	}
	*b = replaceBatch[T]{of: b.of, streamed: b.streamed}
}

// Discard takes the lock only if there are writes to forget.
func (b *replaceBatch[T]) Discard() {
	if len(b.writes)+len(b.keyless) > 0 {
		b.of.of.writer.Lock()
		defer b.of.of.writer.Unlock()
	}
	b.reset()
}

// gather counts an object in the budget. It returns false for a rejected object, and rejects an
// object that exceeds the budget.
func (b *replaceBatch[T]) gather(w *write[T]) bool {
	if c := b.of.of; w.err == nil {
		if w.err = c.budget.gather(w, c.table.entry(w.key)); w.err == nil {
			return true
		}
	}
	// A substring would keep the memory of the whole object.
	var none T
	w.object = none
	w.key = Key{strings.Clone(w.key.Cluster), strings.Clone(w.key.Namespace), strings.Clone(w.key.Name)}
	w.version = Version{types.UID(strings.Clone(string(w.version.UID))), strings.Clone(w.version.ResourceVersion)}
	return false
}

func (b *replaceBatch[T]) Commit(resourceVersion string) error {
	if b.at != nil {
		sort.Sort(b.writes) // without the lock, because a list may be long
	}
	p, c := b.of, b.of.of
	c.writer.Lock()
	defer c.writer.Unlock()
	defer b.reset()
	if b.refuse() != nil {
		return b.ended
	}
	s := txn[T]{
		origin:    List,
		initial:   !p.complete,
		mutations: make([]mutation[T], 0, len(b.writes)),
		replaced:  true,
		lowered:   lower(resourceVersion, p.resourceVersion),
	}
	c.budget.begin()
	b.removeMissing(&s)
	for _, writes := range [][]write[T]{b.keyless, b.writes} {
		for i := range writes {
			p.stage(&s, &writes[i])
		}
	}
	s.seen, s.resourceVersion = resourceVersion, resourceVersion
	if len(s.rejected) > 0 {
		s.resourceVersion = p.resourceVersion
		if s.lowered {
			s.resourceVersion = ""
		}
	}
	c.commit(p, &s)
	return rejectedError(s.rejections)
}

// removeMissing deletes the objects that the list does not have. An object under the key of a
// rejected write stays, and so does the object with the UID of a rejected write without a key.
func (b *replaceBatch[T]) removeMissing(s *txn[T]) {
	stays := make(map[types.UID]bool)
	for i := range b.keyless {
		stays[b.keyless[i].version.UID] = true
	}
	delete(stays, "")
	at := 0
	for e := range b.of.held() {
		key := e.key()
		for at < len(b.writes) && b.writes[at].key.Compare(key) < 0 {
			at++
		}
		if at < len(b.writes) && b.writes[at].key == key {
			continue
		}
		if len(stays) == 0 || !stays[e.known().UID] {
			b.of.remove(s, mutation[T]{key: key}, "")
		}
	}
}
