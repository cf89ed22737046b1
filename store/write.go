package store

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kubereflector/kubereflector/internal/panicked"
	"github.com/kubereflector/kubereflector/internal/versions"
	"github.com/tidwall/btree"
)

// A write goes through three steps:
//
//  1. The writer locks Cache.writer, which no reader takes, so that one write runs at a time. Then begin
//     makes the txn, unless the cache takes no write.
//  2. For each object, identify derives the key and the version, and decide says what the write is: a
//     mutation, with the values of all indexes, a rejection, or nothing if the cache holds the same
//     content. The user's functions run here, and readers still see the state before. An error changes
//     no object, but it makes the key rejected, unless the key is outside of the scope of the writer. That
//     holds the resource version back until a later write of the key succeeds, or until a list comes that
//     rejects nothing.
//  3. publish makes the commit. Its show locks Cache.trees, so that a new snapshot waits, and changes the
//     trees, which snapshots and indexes read. Then it locks Cache.mu as well, so that Get waits, and
//     changes the table together with the resource version. So no version stands for objects that a
//     reader does not see (store-S3). A commit of more than 1,024 changes lets Get read the state before
//     instead: see Cache.frozen. After that, wake wakes the loops of WatchKey, and notify calls the
//     followers: event queues, and the waits of package await. The write returns when all of them have
//     the commit.
//
// A list goes through the same steps: see batch.go.

// Add implements [Store]. If the cache holds an object under the key, the change is a Modification,
// or a Deletion and an Addition if the UIDs differ. There is no change if the cache holds the same
// version with the same content: see [EqualContent].
func (c *Cache[T]) Add(object T) error {
	return c.write(nil, "", Write[T]{Type: Addition, Object: object})
}

// Update implements [Store]. If the cache holds no object under the key, the change is an Addition.
func (c *Cache[T]) Update(object T) error {
	return c.write(nil, "", Write[T]{Type: Modification, Object: object})
}

// Delete implements [Store].
func (c *Cache[T]) Delete(object T) error {
	return c.write(nil, "", Write[T]{Type: Deletion, Object: object, FinalStateKnown: true})
}

// DeleteKey implements [Store]. It does not move the resource version: use [Cache.Bookmark] for that.
func (c *Cache[T]) DeleteKey(key Key) error {
	return c.write(nil, "", Write[T]{Type: Deletion, Key: key})
}

// Bookmark implements [Store].
func (c *Cache[T]) Bookmark(resourceVersion string) error { return c.write(nil, resourceVersion) }

// write makes writes of a watch in one commit. They go to a partition, or with nil to the cache
// itself. The resource version is as in [Batch].
func (c *Cache[T]) write(in *Partition[T], resourceVersion string, writes ...Write[T]) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	tx, err := c.begin(in, Watch)
	if err != nil {
		return err
	}
	tx.mutations, tx.maxVersion = c.scratch.mutations[:0], resourceVersion
	for i := range writes {
		w := c.identify(in, &writes[i])
		tx.decide(&w)
	}
	tx.advance(resourceVersion)
	// A write that changes no object makes a commit if it moves the resource version. While a rejected key
	// holds that back, the observed version alone is worth a commit: it tells followers how far the watch has
	// come.
	isMoved := tx.resourceVersion != tx.progress.resourceVersion
	isAhead := tx.observedVersion != "" && tx.observedVersion != tx.progress.resourceVersion
	if len(tx.mutations) > 0 || isMoved || isAhead {
		tx.publish()
	} else if len(tx.accepted) > 0 {
		c.mu.Lock()
		tx.showAccepted()
		c.mu.Unlock()
	}
	return rejectedError(tx.rejections)
}

// txn is a commit that the cache has not made yet. Its holder holds Cache.writer.
type txn[T any] struct {
	cache    *Cache[T]
	in       *Partition[T] // that the writes go to; nil for the cache itself
	progress *progress     // of in, or of the cache itself

	origin  Origin
	initial bool // the first list
	// unannounced is true if no follower gets the commit.
	unannounced bool
	mutations   []mutation[T]
	rejections  []Rejection
	stacks      panicked.Stacks // in rejections

	// resourceVersion is the version after the commit. observedVersion is the version up to which every change
	// has been received, rejected objects included.
	resourceVersion string
	observedVersion string
	// maxVersion is the version up to which the batch has every change; empty if unknown. A write with
	// a newer version moves no version, because changes before it may still come: see Batch.Commit.
	maxVersion string
	rejected   rejectedKeys // of a list; the commit moves them to progress
	accepted   rejectedKeys // of a watch: those in progress that the commit removes from it

	// onShow changes what else the commit makes visible, under Cache.mu: the partitions that Drop drops. It
	// is nil for other commits.
	onShow func()
}

// mutation is the change that a commit makes under one key. stage sets the fields of the first group, and
// changeTrees or loadTrees those of the second, and into if it was nil:
//
//	the mutation                                before                 after
//	stores an object                            held                   next
//	the same, after an earlier one of the key   what that one left     next
//	the same, and changeTrees swaps contents    next                   held
//	removes an object                           the removed entry      nil
type mutation[T any] struct {
	key   Key
	next  *entry[T] // the entry of the new state; nil for a removal
	held  *entry[T] // the entry of the table; nil if there is none, and for a removal
	into  *nsMap[T] // the map of the table for key; nil if there is none yet, and for a removal
	final *entry[T] // the last state of a deleted object, if the server reported it

	// before and after are the entries with the states before and after this mutation; nil for no object.
	// If both are nil, nothing changed.
	before, after *entry[T]
	swapped       bool // after is where before was in the trees; no tree and no snapshot has before: see changeTrees
	repeated      bool // after has the content of before, which an earlier mutation of the commit stored

	outOfScope bool // set by Drop: the object may still exist on the server
}

// scratch is memory that the next commit reuses. Guarded by Cache.writer.
type scratch[T any] struct {
	mutations []mutation[T]
	terms     []*term
	commit    Commit[T]
	entries   []*entry[T] // zero values
}

const (
	// maxScratch is the largest capacity of a slice that the cache keeps for the next commit.
	maxScratch = 1024
	// maxFreeEntries is how many free entries of about 80 bytes the cache keeps.
	maxFreeEntries = 64
)

// recycle returns the memory of a slice for the next commit, or nil if the slice is too large.
func recycle[E any](s []E) []E {
	if cap(s) > maxScratch {
		return nil
	}
	clear(s)
	return s[:0]
}

// begin returns a txn without writes, or why the cache takes none. The caller holds writer until the end of
// the txn.
func (c *Cache[T]) begin(in *Partition[T], origin Origin) (tx txn[T], err error) {
	at := &c.own
	if in != nil {
		at = &in.progress
	}
	if c.budget != nil {
		c.budget.begin()
	}
	return txn[T]{cache: c, in: in, progress: at, origin: origin, resourceVersion: at.resourceVersion}, c.refuses(in, origin)
}

// refuses returns why the cache takes no write, or nil.
func (c *Cache[T]) refuses(in *Partition[T], origin Origin) error {
	switch {
	case in != nil && in.dropped:
		return scopeError(in.scope, errDropped)
	case in == nil && origin == List && len(c.partitions) > 0:
		return scopeError(Scope{}, errOverlap)
	}
	return nil
}

// keyFor returns the key that an object has in the cache, or in a partition, and the error with which
// a write of the object would be rejected.
func (c *Cache[T]) keyFor(in *Partition[T], object T) (Key, error) {
	w := c.identify(in, &Write[T]{Type: Addition, Object: object})
	return w.key, w.err
}

// identified is a [Write] after identify: the key and the version are derived, and err says why the
// cache must reject it.
type identified[T any] struct {
	key     Key
	version Version
	object  T     // zero if err is set
	err     error // why the cache must reject the write, as far as identify can tell
	action  action

	given bool // the Write gives the version
	hash  uint64
	grows bool // see Budget.growing

	// entry is the entry that prepare made, or the last state of a deleted object; nil for none.
	// indexes is the number of indexes whose terms it has. Cache.writer guards the terms.
	entry   *entry[T]
	indexes int

	share int64 // of a list: see Budget.gather
}

// action says what a write does under its key.
type action uint8

const (
	storeObject action = iota
	deleteObject
	keepHeld // a list has the version that the cache holds
)

// identify derives the key and the version of a write, and the error for which the cache must
// reject it. With an error, it sets the parts that it knows. It needs no lock.
func (c *Cache[T]) identify(in *Partition[T], from *Write[T]) (w identified[T]) {
	w.key, w.version, w.given, w.hash = from.Key, from.Version, from.Version != (Version{}), from.Hash
	if w.hash == unannouncedHash {
		w.hash = 0 // not known
	}
	if in != nil {
		w.key, w.err = in.normalize(from.Key)
	}
	if from.Err == nil && from.Type == Deletion {
		w.action = deleteObject
	}
	switch {
	case from.Err != nil:
		w.err = from.Err
	case w.action == deleteObject && !from.FinalStateKnown: // the key is enough
	case from.Type < Addition || from.Type > Deletion:
		w.err = errNoWrite
	default:
		key, version, err := c.describe(from.Object)
		if in != nil && err == nil {
			key, err = in.normalize(key)
		}
		if !w.given {
			w.version = version
		}
		if from.Key == (Key{}) {
			w.key = key
		} else if err == nil && key != w.key {
			err = fmt.Errorf("%w: it is %.253q, but the write says %.253q; let the KeyFunc of a Transform agree with the store's", ErrBadKey, key, w.key)
		}
		switch {
		case err == nil && w.action == storeObject:
			w.object = from.Object
		case err == nil:
			w.entry = &entry[T]{object: from.Object}
			w.entry.setVersion(from.Version)
		case w.action == storeObject || from.Key == (Key{}): // else a deletion with a key, which needs no object
			w.err = err
		}
	}
	return w
}

// describe derives the key and the version of an object. With an error, it returns the parts that
// it could derive.
func (c *Cache[T]) describe(object T) (key Key, version Version, err error) {
	defer func() {
		// The methods of a nil object without a key panic when VersionOf calls them. The first
		// error says more than the panic.
		if value := recover(); value != nil && err == nil {
			key, version, err = Key{}, knownVersion(object), panicked.Error(value)
		}
	}()
	if key, err = c.keyOf(object); err == nil && key == (Key{}) {
		err = errNoName
	}
	if err != nil {
		key = Key{}
	} else if !c.otherKeys.Load() && !isNamed(key, object) {
		c.otherKeys.Store(true)
	}
	return key, VersionOf(object), err
}

// decide stages a write as a mutation, as a rejection, or as nothing.
func (tx *txn[T]) decide(w *identified[T]) {
	c := tx.cache
	if tx.in != nil || len(c.partitions) > 0 {
		if err := c.checkOwner(tx.in, w.key); err != nil {
			if errors.Is(w.err, ErrOutOfScope) {
				err = w.err
			} else {
				err = errors.Join(err, tx.stacks.Bound(w.err))
			}
			// No later write of this writer would clear the key, so rejected does not get it.
			tx.rejections = append(tx.rejections, Rejection{Key: w.key, Version: w.version, Err: err})
			return
		}
	}
	if err := tx.stage(w); err != nil {
		tx.reject(w, err)
	}
}

// stage stages a write as a mutation, or as nothing if the cache holds the same content. It returns an
// error if the cache must reject the write.
func (tx *txn[T]) stage(w *identified[T]) error {
	if w.err != nil {
		return w.err
	}
	c := tx.cache
	into, held := c.table.find(w.key)
	switch {
	case w.action == deleteObject:
		// There is an object to remove if the cache holds one, if an earlier mutation of the commit may have
		// stored one, or if followers still know one that WriteUnannounced deleted.
		key, held, found := tx.findUID(w, held)
		if held != nil || found && len(tx.mutations) > 0 || c.absent[key] != nil {
			tx.stageRemoval(mutation[T]{key: key, final: w.entry})
		}
		tx.accept(key)
	case w.action == keepHeld:
		if held == nil || held.hash == unannouncedHash {
			return ErrNotHeld
		}
	case held != nil && tx.isUnchanged(w, held):
	default:
		if err := c.prepare(w, held); err != nil {
			return err
		}
		if c.budget != nil {
			if err := c.budget.admit(c, w.key, w.object); err != nil {
				return err
			}
		}
		tx.mutations = append(tx.mutations, mutation[T]{key: w.key, into: into, held: held, next: w.entry})
		w.entry = nil // the mutation has it, with its terms
	}
	tx.accept(w.key)
	tx.advance(w.version.ResourceVersion)
	return nil
}

// reject records that the cache rejects a write, and that the key holds the resource version back.
func (tx *txn[T]) reject(w *identified[T], err error) {
	c := tx.cache
	c.releaseTerms(w)
	if tx.origin == List {
		tx.rejected.add(w.key)
	} else {
		delete(tx.accepted, w.key)
		c.mu.Lock()
		tx.progress.rejected.add(w.key)
		c.mu.Unlock()
		if versions.Later(tx.resourceVersion, w.version.ResourceVersion) {
			// An earlier write of the batch has moved the version past the rejected object, so the
			// version goes back. That happens only in a batch with events of several watches, whose
			// versions are in no order.
			tx.resourceVersion = tx.progress.resourceVersion
		}
	}
	tx.rejections = append(tx.rejections, Rejection{Key: w.key, Version: w.version, Err: tx.stacks.Bound(err)})
}

// stageRemoval stages the deletion of the object under the key of a mutation.
func (tx *txn[T]) stageRemoval(m mutation[T]) {
	if tx.cache.budget != nil {
		tx.cache.budget.leave(tx.cache, m.key)
	}
	tx.mutations = append(tx.mutations, m)
}

// prepare makes the entry of a write and runs the index functions for its object, again if the cache
// has a new index. held is the current entry under the key, or nil. The caller holds writer.
func (c *Cache[T]) prepare(w *identified[T], held *entry[T]) (err error) {
	if w.entry != nil && w.indexes == len(c.indexes) {
		return nil
	}
	c.releaseTerms(w)
	terms := c.scratch.terms[:0]
	for _, x := range c.indexes {
		if terms, err = x.indexer.derive(terms, held.section(x.position), w.key, w.object); err != nil {
			c.release(terms)
			c.scratch.terms = recycle(terms)
			return err
		}
	}
	var e *entry[T]
	if last := len(c.scratch.entries) - 1; last >= 0 {
		e, c.scratch.entries[last] = c.scratch.entries[last], nil // or the array would keep the object in memory
		c.scratch.entries = c.scratch.entries[:last]
	} else {
		e = new(entry[T])
	}
	e.name, e.object, e.hash, e.stamp = w.key.Name, w.object, w.hash, w.version.stamp()
	if w.given && w.version != knownVersion(w.object) {
		e.setVersion(w.version)
	}
	e.setTerms(terms)
	c.scratch.terms = recycle(terms)
	w.entry, w.indexes = e, len(c.indexes)
	return nil
}

// releaseTerms releases the index values of a write that no txn has.
func (c *Cache[T]) releaseTerms(w *identified[T]) {
	if w.entry != nil {
		c.release(w.entry.terms())
		w.entry = nil
	}
}

// accept records that a write of a key succeeded, so that the key no longer holds the resource version back. It
// stays among the rejected ones until readers see what the write stored: see Informer.Covers of package informer.
// The zero Key stands for rejected objects without a key. It stays until the next list, because no write
// shows that it is about one of them. In a list, accept and advance do nothing: replaceBatch.Commit sets the
// rejected keys and the versions for the whole list.
func (tx *txn[T]) accept(key Key) {
	if tx.origin == List || !tx.progress.rejected[key] || key == (Key{}) {
		return
	}
	tx.accepted.add(key)
}

// showAccepted lets readers see that keys are not rejected any more. The caller holds Cache.mu.
func (tx *txn[T]) showAccepted() {
	for key := range tx.accepted {
		delete(tx.progress.rejected, key)
	}
}

// advance records that every change up to a resource version has been received. An empty version
// changes no version, nor does one after maxVersion, if there is one, nor any before the first Replace. A
// rejected key holds back resourceVersion, but not observedVersion.
func (tx *txn[T]) advance(resourceVersion string) {
	if tx.origin == List || !tx.progress.synced || resourceVersion == "" || versions.Later(resourceVersion, tx.maxVersion) {
		return
	}
	tx.observedVersion = resourceVersion
	if len(tx.progress.rejected) == len(tx.accepted) {
		tx.resourceVersion = resourceVersion
	}
}

// largeCommit is the largest number of mutations for which a point read waits. During a larger
// commit, readers see the previous state.
const largeCommit = 1024

// publish makes the commit: readers see the new state, then the followers are called.
func (tx *txn[T]) publish() {
	c := tx.cache
	tx.show()
	defer c.reuse(tx.mutations) // also if a follower panics: the panic goes on to the writer
	if c.budget != nil {
		c.budget.committed(tx.mutations)
	}
	if c.loops.some.Load() {
		c.wake(tx.mutations)
	}
	if c.absent != nil || c.unseen != nil || tx.unannounced {
		tx.rememberAbsent()
	}
	if len(c.followers) > 0 && !tx.unannounced {
		tx.notify()
	}
}

// show makes the new state visible. Point reads wait only while the table changes; a large commit
// lets them read the state before, so that they do not wait at all.
func (tx *txn[T]) show() {
	c := tx.cache
	large := len(tx.mutations) > largeCommit
	var before *Snapshot[T]
	if large {
		before = c.Snapshot() // readers see it as frozen; it has every entry, so changeTrees swaps none
	}
	c.trees.Lock()
	defer c.trees.Unlock()
	if c.entries.len() == 0 && areAdditionsInOrder(tx.mutations) {
		c.loadTrees(tx.mutations)
	} else {
		c.changeTrees(tx.mutations)
	}
	if large {
		if len(tx.mutations) >= c.entries.len()/4 {
			c.compact()
		}
		c.mu.Lock()
		c.frozen = before
		c.mu.Unlock()
		c.changeTable(tx.mutations)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !large {
		c.changeTable(tx.mutations)
	}
	c.frozen = nil
	c.current.Store(nil)
	c.generation++
	tx.progress.resourceVersion = tx.resourceVersion
	tx.showAccepted()
	if tx.origin == List {
		tx.progress.synced, tx.progress.rejected = true, tx.rejected
		c.synced = c.synced || c.partitionsSynced()
	}
	if tx.onShow != nil {
		tx.onShow()
	}
}

// uncommitted is the epoch of an entry that the current commit has stored or removed.
const uncommitted = math.MaxUint64

// changeTrees applies mutations to the trees.
//
// If no snapshot has the entry that is held, it stays where it is and swaps its content with next.
// That saves a search of each tree: held then has the new state, and next has the state before. No
// reader sees the swap: Get reads the object in the table's slot, Has waits for trees, and no snapshot has the entry. An
// entry that an earlier mutation of this commit stored is never swapped, because the followers still
// need its state.
func (c *Cache[T]) changeTrees(mutations []mutation[T]) {
	var place btree.PathHint // of the previous mutation
	ordered := slices.IsSortedFunc(mutations, func(a, b mutation[T]) int { return a.key.Compare(b.key) })
	for i := range mutations {
		m := &mutations[i]
		if !ordered {
			place = btree.PathHint{}
		}
		switch {
		case m.next == nil:
			old := c.entries.remove(pivot(m.key), &place)
			if old == nil {
				continue
			}
			m.before = entryOf[T](old)
			m.before.epoch = uncommitted // so that a later mutation of this key, which holds this entry, does not swap it
		case m.held != nil && m.held.epoch == c.epoch:
			// No snapshot has the entry, and no earlier mutation of this commit stored or removed it: else
			// its epoch would be uncommitted.
			m.next.space = m.into.space
			*m.held, *m.next = *m.next, *m.held // so next now has the state before
			m.before, m.after, m.swapped = m.next, m.held, true
			m.after.epoch = uncommitted
		default:
			if m.into == nil {
				m.into = c.nsMapOf(m.key, 0)
			}
			m.after = m.next
			m.after.space, m.after.epoch = m.into.space, uncommitted
			m.before = entryOf[T](c.entries.put(&m.after.header, &place))
			m.repeated = m.before != nil && m.before.epoch == uncommitted && m.after.repeats(m.before)
		}
		for _, x := range c.indexes {
			x.move(m.before, m.after, m.swapped)
		}
	}
	for i := range mutations {
		if e := mutations[i].after; e != nil {
			e.epoch = c.epoch
		}
	}
}

// areAdditionsInOrder reports whether mutations add several objects with distinct keys in ascending
// order, as a first list does.
func areAdditionsInOrder[T any](mutations []mutation[T]) bool {
	for i := range mutations {
		if mutations[i].next == nil || i > 0 && mutations[i-1].key.Compare(mutations[i].key) >= 0 {
			return false
		}
	}
	return len(mutations) > 1
}

// loadTrees is changeTrees for empty trees and additions in order. It appends and searches nothing.
func (c *Cache[T]) loadTrees(mutations []mutation[T]) {
	for i := range mutations {
		m := &mutations[i]
		if i > 0 && m.key.Namespace == mutations[i-1].key.Namespace && m.key.Cluster == mutations[i-1].key.Cluster {
			m.into = mutations[i-1].into
		} else {
			same := i + 1
			for same < len(mutations) && mutations[same].key.Namespace == m.key.Namespace && mutations[same].key.Cluster == m.key.Cluster {
				same++
			}
			m.into = c.nsMapOf(m.key, same-i)
		}
		m.after = m.next
		m.after.space, m.after.epoch = m.into.space, c.epoch
		c.entries.load(&m.after.header)
	}
	for _, x := range c.indexes {
		x.load(mutations)
	}
}

// nsMapOf returns the nsMap of a key. It makes a new one with room for some objects if there is
// none. The caller holds writer.
func (c *Cache[T]) nsMapOf(key Key, room int) *nsMap[T] {
	if s := c.table.nsMap(key); s != nil {
		return s
	}
	objects := make(map[string]slot[T], room) // before the lock, because a large map takes long
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.add(&space{key.Cluster, key.Namespace}, objects)
}

// changeTable applies mutations to the table. The caller holds mu, or readers see frozen.
func (c *Cache[T]) changeTable(mutations []mutation[T]) {
	for i := range mutations {
		switch m := &mutations[i]; {
		case m.after != nil:
			c.table.put(m.into, m.key, m.after)
		case m.before != nil:
			c.table.remove(m.key)
		}
	}
}

// compact frees the memory that node splits leave in the trees: half of each tree after a list in
// key order. A split node keeps the array of both halves. compact copies every node, which releases
// these arrays. The cost grows with the cache, so it pays only after a commit that made a good part
// of the nodes.
func (c *Cache[T]) compact() {
	c.entries.compact()
	for _, x := range c.indexes {
		x.tree.compact()
	}
}

// reuse releases the index values of replaced entries, and keeps the memory of a txn for the next
// one.
func (c *Cache[T]) reuse(mutations []mutation[T]) {
	for i := range mutations {
		m := &mutations[i]
		if m.before == nil {
			continue
		}
		c.release(m.before.terms())
		if m.swapped && len(c.scratch.entries) < maxFreeEntries {
			*m.before = entry[T]{}
			c.scratch.entries = append(c.scratch.entries, m.before)
		}
	}
	c.scratch.mutations = recycle(mutations)
	c.scratch.commit = Commit[T]{Changes: recycle(c.scratch.commit.Changes)}
}

// notify passes the commit to the followers.
func (tx *txn[T]) notify() {
	c := tx.cache
	changes := c.scratch.commit.Changes[:0]
	for i := range tx.mutations {
		changes = tx.mutations[i].appendChanges(changes)
	}
	commit := &c.scratch.commit
	*commit = Commit[T]{
		Origin:          tx.origin,
		Initial:         tx.initial,
		Synced:          c.synced,
		ResourceVersion: c.resourceVersionLocked(),
		Partition:       tx.in,
		ObservedVersion: tx.observedVersion,
		Changes:         changes,
	}
	notifyEach(c.followers, commit)
}

// notifyEach passes a commit to followers. If one panics, it still calls the others.
func notifyEach[T any](followers []*registration[T], commit *Commit[T]) {
	called := 0
	defer func() {
		if called < len(followers) {
			notifyEach(followers[called:], commit)
		}
	}()
	for called < len(followers) {
		called++
		followers[called-1].follower.Commit(commit)
	}
}
