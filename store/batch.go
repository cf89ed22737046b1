package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/kubereflector/kubereflector/internal/panicked"
	"github.com/kubereflector/kubereflector/internal/versions"
	"k8s.io/apimachinery/pkg/types"
)

// Replace implements [Store]. An object that the cache holds with the same UID, resource version and
// content keeps its pointer, and the commit has no change for it.
//
// The cache keeps the old state of a rejected object, if it knows the key or holds an object with
// the UID.
func (c *Cache[T]) Replace(objects []T, resourceVersion string) error {
	return c.replace(nil, objects, resourceVersion)
}

func (c *Cache[T]) replace(in *Partition[T], objects []T, resourceVersion string) error {
	b := &replaceBatch[T]{cache: c, in: in, writes: make([]identified[T], 0, len(objects))}
	for i := range objects { // each takes the lock, so that other writers go on during a long list
		if b.Write(Write[T]{Type: Addition, Object: objects[i]}) != nil {
			break // Commit returns the error
		}
	}
	return b.Commit(resourceVersion)
}

// BeginBatch implements [BatchStore].
func (c *Cache[T]) BeginBatch(self Store[T], replace bool) Batch[T] {
	if self != Store[T](c) {
		return nil
	}
	return c.newBatch(nil, replace)
}

func (c *Cache[T]) newBatch(in *Partition[T], replace bool) Batch[T] {
	if replace {
		return &replaceBatch[T]{cache: c, in: in, streamed: true}
	}
	return &watchBatch[T]{cache: c, in: in}
}

// Has implements [BatchStore].
func (c *Cache[T]) Has(key Key, version Version, hash uint64) bool {
	c.trees.Lock() // not mu: a large commit changes the table under trees alone
	defer c.trees.Unlock()
	return c.table.entry(key).hasContent(version, hash)
}

// watchBatch gathers events of a watch for a cache or a part of it.
type watchBatch[T any] struct {
	cache  *Cache[T]
	in     *Partition[T] // nil for the cache itself
	writes []Write[T]
}

func (b *watchBatch[T]) Write(w Write[T]) error {
	b.writes = append(b.writes, w)
	return nil
}

func (b *watchBatch[T]) Keep(Key) {}

func (b *watchBatch[T]) Commit(resourceVersion string) error {
	defer b.Discard()
	return b.cache.write(b.in, resourceVersion, b.writes...)
}

func (b *watchBatch[T]) Discard() { b.writes = recycle(b.writes) }

// replaceBatch gathers a list that becomes the content of a cache, or of a partition. It runs the
// index functions as soon as an object comes, so that a store of encoded objects decodes each
// one only once.
type replaceBatch[T any] struct {
	cache *Cache[T]
	in    *Partition[T] // nil for the cache itself
	// streamed is true if the list comes object by object, so that its budget counts now.
	streamed bool

	// writes has the last write of each key. It is in the order of keys while positions is nil.
	writes byKey[T]
	// positions has the index in writes of each key. It is nil as long as the writes come in the order of
	// keys.
	positions map[Key]int
	keyless   []identified[T] // rejected objects without a key
	stacks    panicked.Stacks // in the errors of the writes
	refused   int             // how many objects were rejected, if there is a budget
	ended     error           // why the batch accepts no more writes
}

// byKey sorts writes. It uses a sort that is not generic, so that packages with a cache do not
// compile the sort again.
type byKey[T any] []identified[T]

func (w byKey[T]) Len() int           { return len(w) }
func (w byKey[T]) Less(i, j int) bool { return w[i].key.Compare(w[j].key) < 0 }
func (w byKey[T]) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

func (b *replaceBatch[T]) Write(from Write[T]) error {
	b.cache.writer.Lock()
	defer b.cache.writer.Unlock()
	return b.write(&from)
}

func (b *replaceBatch[T]) Keep(key Key) {
	b.cache.writer.Lock()
	defer b.cache.writer.Unlock()
	if b.ended != nil {
		return
	}
	w := identified[T]{action: keepHeld, key: key}
	if b.in != nil {
		w.key, w.err = b.in.normalize(key)
	}
	b.supersede(w.key)
	b.add(w)
}

func (b *replaceBatch[T]) Commit(resourceVersion string) error {
	if b.positions != nil {
		sort.Sort(b.writes) // without the lock, because a list may be long
	}
	c := b.cache
	c.writer.Lock()
	defer c.writer.Unlock()
	tx, err := c.begin(b.in, List)
	defer b.reset()
	if err = cmp.Or(b.ended, err); err != nil {
		return err
	}
	tx.initial = !tx.progress.synced
	tx.mutations = make([]mutation[T], 0, len(b.writes))
	b.removeMissing(&tx)
	for i := range b.keyless {
		tx.decide(&b.keyless[i])
	}
	for i := range b.writes {
		tx.decide(&b.writes[i])
	}
	tx.observedVersion = resourceVersion
	switch {
	case len(tx.rejected) == 0:
		tx.resourceVersion = resourceVersion
	case versions.Later(tx.resourceVersion, resourceVersion):
		// The list is older than the cache, as after a restore of the API server from a backup. No version
		// is right: that of the cache names a history that is gone, and that of the list would pass the
		// rejected objects.
		tx.resourceVersion = ""
	}
	tx.publish()
	return rejectedError(tx.rejections)
}

// removeMissing deletes the objects that the list does not have. If the cache rejects an object of the
// list, its old state stays. It is found by the key or the UID: an object that cannot be decoded is rejected
// under its namespace and name, or without a key, and a KeyFunc may return another one.
func (b *replaceBatch[T]) removeMissing(tx *txn[T]) {
	stays := make(map[types.UID]bool)
	for i := range b.keyless {
		stays[b.keyless[i].version.UID] = true
	}
	for i := range b.writes {
		if b.writes[i].err != nil {
			stays[b.writes[i].version.UID] = true
		}
	}
	delete(stays, "")
	var scope *Scope
	if b.in != nil {
		scope = &b.in.scope
	}
	at := 0
	for e := range b.cache.within(scope) {
		key := e.key()
		for at < len(b.writes) && b.writes[at].key.Compare(key) < 0 {
			at++
		}
		if at < len(b.writes) && b.writes[at].key == key {
			continue
		}
		if len(stays) == 0 || !stays[e.known().UID] {
			tx.stageRemoval(mutation[T]{key: key})
		}
	}
	absent := make([]Key, 0, len(b.cache.absent))
	for key := range b.cache.absent {
		at := sort.Search(len(b.writes), func(n int) bool { return b.writes[n].key.Compare(key) >= 0 })
		if (scope == nil || scope.Contains(key)) && (at == len(b.writes) || b.writes[at].key != key) {
			absent = append(absent, key)
		}
	}
	sortKeys(absent)
	for _, key := range absent { // followers do not know yet that they are deleted
		tx.stageRemoval(mutation[T]{key: key})
	}
}

// Discard takes the lock only if there are writes to release.
func (b *replaceBatch[T]) Discard() {
	if len(b.writes)+len(b.keyless) > 0 {
		b.cache.writer.Lock()
		defer b.cache.writer.Unlock()
	}
	b.reset()
}

// write is Write. Its caller holds writer, and so do the callers of all methods below.
func (b *replaceBatch[T]) write(from *Write[T]) error {
	c := b.cache
	if b.ended == nil {
		b.ended = c.refuses(b.in, List)
	}
	if b.ended != nil {
		return b.ended
	}
	w := c.identify(b.in, from)
	if w.action == deleteObject { // a watch-list shows that an object that it brought was deleted
		b.remove(&w, from.FinalStateKnown)
		return nil
	}
	b.supersede(w.key)
	if from.Err == nil && b.streamed && c.budget != nil && c.budget.limit > 0 && !b.gather(&w) {
		if b.refused++; b.refused > maxOverBudget {
			b.reset()
			b.ended = endedError(w.err, c.budget.limit)
			return b.ended
		}
	}
	// The object of a held version has probably not changed: then it needs no index values.
	if w.err == nil && len(c.indexes) > 0 {
		held := c.table.entry(w.key)
		if (held == nil || held.known() != w.version) && c.checkOwner(b.in, w.key) == nil {
			if err := c.prepare(&w, held); err != nil {
				b.release(&w)
				w.reject(err)
			}
		}
	}
	w.err = b.stacks.Bound(w.err)
	b.add(w)
	return nil
}

// endedError returns the error of a list of which more than maxOverBudget objects were rejected, the last
// for a cause. It does not wrap the error of a user's function, which says nothing about the list.
func endedError(cause error, limit int64) error {
	const text = "list was ended: more than %d of its objects were rejected, and a cache with a budget, here of %d bytes, keeps no more errors; the last: "
	if errors.Is(cause, ErrOverBudget) {
		return fmt.Errorf(text+"%w", maxOverBudget, limit, cause)
	}
	return fmt.Errorf(text+"%v", maxOverBudget, limit, cause)
}

// add appends a write whose key the batch does not have.
func (b *replaceBatch[T]) add(w identified[T]) {
	switch {
	case w.key == (Key{}):
		b.keyless = append(b.keyless, w)
		return
	case b.positions != nil:
		b.positions[w.key] = len(b.writes)
	}
	b.writes = append(b.writes, w)
}

// supersede removes an earlier write of a key, before another write of the key comes. So a list in
// which a few objects change without end takes bounded memory.
func (b *replaceBatch[T]) supersede(key Key) {
	last := len(b.writes) - 1
	if last < 0 || key == (Key{}) || b.positions == nil && b.writes[last].key.Compare(key) < 0 {
		return
	}
	if b.positions == nil {
		b.positions = make(map[Key]int, len(b.writes))
		for i := range b.writes {
			b.positions[b.writes[i].key] = i
		}
	}
	i, ok := b.positions[key]
	if !ok {
		return
	}
	b.release(&b.writes[i])
	b.writes[i] = b.writes[last]
	b.positions[b.writes[i].key] = i
	delete(b.positions, key)
	b.writes[last] = identified[T]{}
	b.writes = b.writes[:last]
}

// remove removes the write of an object that is deleted. As in txn.findUID, the UID decides where the key may be that
// of another object.
func (b *replaceBatch[T]) remove(w *identified[T], finalStateKnown bool) {
	uid := w.version.UID
	is := func(other identified[T]) bool { return uid != "" && other.version.UID == uid }
	b.keyless = slices.DeleteFunc(b.keyless, is)
	byUID := uid != "" && b.cache.otherKeys.Load()
	if finalStateKnown || !byUID {
		b.supersede(w.key)
	}
	for i := 0; byUID && i >= 0; {
		if i = slices.IndexFunc(b.writes, is); i >= 0 {
			b.supersede(b.writes[i].key)
		}
	}
}

// release gives back the index values and the budget of a write.
func (b *replaceBatch[T]) release(w *identified[T]) {
	b.cache.releaseTerms(w)
	if w.share > 0 {
		b.cache.budget.count(w, -w.share)
		w.share = 0
	}
}

// reset releases and forgets all writes.
func (b *replaceBatch[T]) reset() {
	for i := range b.writes {
		b.release(&b.writes[i])
	}
	*b = replaceBatch[T]{cache: b.cache, in: b.in, streamed: b.streamed}
}

// gather counts an object in the budget. It returns false for a rejected object, and rejects an
// object that exceeds the budget.
func (b *replaceBatch[T]) gather(w *identified[T]) bool {
	err := w.err
	if c := b.cache; err == nil {
		if err = c.budget.gather(w, c.table.entry(w.key)); err == nil {
			return true
		}
	}
	w.reject(err)
	return false
}

// reject records that Commit will reject a write, which frees the memory of its object until then.
func (w *identified[T]) reject(err error) {
	var none T
	w.object, w.err = none, err
	// A substring would keep the memory of the whole object.
	w.key = Key{strings.Clone(w.key.Cluster), strings.Clone(w.key.Namespace), strings.Clone(w.key.Name)}
	w.version = Version{types.UID(strings.Clone(string(w.version.UID))), strings.Clone(w.version.ResourceVersion)}
}
