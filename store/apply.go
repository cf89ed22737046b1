package store

import (
	"math"
	"slices"

	"github.com/tidwall/btree"
)

// commit commits a txn. Readers see the new state first, then commit wakes watches and calls
// followers. The caller holds writer.
func (c *Cache[T]) commit(p *Partition[T], s *txn[T]) {
	c.mutate(p, s)
	defer c.reuse(s.mutations) // also if a follower panics: the panic goes on to the writer
	c.budget.committed(s.mutations)
	c.wake(s.mutations)
	if len(c.followers) > 0 {
		c.tell(p, s)
	}
}

// largeCommit is the largest number of mutations for which a point read waits. During a larger
// commit, readers see the previous state.
const largeCommit = 1024

// mutate applies the mutations of a txn and makes the new state visible. Point
// reads wait only while the maps change.
func (c *Cache[T]) mutate(p *Partition[T], s *txn[T]) {
	large := len(s.mutations) > largeCommit
	var before *Snapshot[T]
	if large {
		before = c.Snapshot() // published until the commit is made
	}
	c.trees.Lock()
	defer c.trees.Unlock()
	c.mutateTrees(s.mutations)
	if large {
		if len(s.mutations) >= c.entries.len()/4 {
			c.compact()
		}
		c.mu.Lock()
		c.frozen = before
		c.mu.Unlock()
		c.mutateTable(s.mutations)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !large {
		c.mutateTable(s.mutations)
	}
	c.frozen = nil
	c.published.Store(nil)
	c.generation++
	p.resourceVersion = s.resourceVersion
	if s.replaced {
		p.complete, p.rejected = true, s.rejected
		c.complete = c.complete || c.allComplete(p)
	}
}

// mutateTrees applies mutations to the trees, and sets old of each to the entry that it replaced.
func (c *Cache[T]) mutateTrees(mutations []mutation[T]) {
	if c.entries.len() == 0 && areAdditionsInOrder(mutations) {
		c.loadTrees(mutations)
		return
	}
	var place btree.PathHint // of the previous mutation
	ordered := slices.IsSortedFunc(mutations, func(a, b mutation[T]) int { return a.key.Compare(b.key) })
	for i := range mutations {
		e := &mutations[i]
		if !ordered {
			place = btree.PathHint{}
		}
		kept := false
		if e.new != nil {
			kept = c.put(e, &place)
		} else if old := c.entries.remove(pivot(e.key), &place); old != nil {
			e.old = entryOf[T](old)
			e.old.epoch = uncommitted // until mutateTable runs, the table still has the entry
		} else {
			continue
		}
		for _, x := range c.indexes {
			x.move(e.old, e.new, kept)
		}
	}
	for i := range mutations {
		if e := mutations[i].new; e != nil {
			e.epoch = c.epoch
		}
	}
}

// areAdditionsInOrder reports whether mutations add several objects with distinct keys in ascending
// order, as a first list does.
func areAdditionsInOrder[T any](mutations []mutation[T]) bool {
	for i := range mutations {
		if mutations[i].new == nil || i > 0 && mutations[i-1].key.Compare(mutations[i].key) >= 0 {
			return false
		}
	}
	return len(mutations) > 1
}

// loadTrees is mutateTrees for empty trees. It appends and searches nothing.
func (c *Cache[T]) loadTrees(mutations []mutation[T]) {
	for i := range mutations {
		e := &mutations[i]
		if i > 0 && e.key.Namespace == mutations[i-1].key.Namespace && e.key.Cluster == mutations[i-1].key.Cluster {
			e.nsMap = mutations[i-1].nsMap
		} else {
			same := i + 1
			for same < len(mutations) && mutations[same].key.Namespace == e.key.Namespace && mutations[same].key.Cluster == e.key.Cluster {
				same++
			}
			e.nsMap = c.nsMapOf(e.key, same-i)
		}
		e.new.space, e.new.epoch = e.nsMap.space, c.epoch
		c.entries.load(&e.new.header)
	}
	for _, x := range c.indexes {
		x.load(mutations)
	}
}

func (c *Cache[T]) mutateTable(mutations []mutation[T]) {
	for i := range mutations {
		switch e := &mutations[i]; {
		case e.new != nil:
			c.table.put(e.nsMap, e.key, e.new)
		case e.old != nil:
			c.table.remove(e.key)
		}
	}
}

// put stores the new entry of a mutation in the tree. If no snapshot has the current entry, put
// swaps the contents of both entries without a search, and returns true. Then e.new is the entry in
// the tree, and e.old has the previous state. put never swaps an entry that an earlier mutation of
// this commit stored, because the followers still need its state.
func (c *Cache[T]) put(e *mutation[T], place *btree.PathHint) (kept bool) {
	if e.nsMap == nil {
		e.nsMap = c.nsMapOf(e.key, 0)
	}
	e.new.space = e.nsMap.space
	// An entry of the table is also in the tree, unless this commit changed it. Then its epoch is
	// uncommitted.
	if held := e.old; held != nil && held.epoch == c.epoch {
		*held, *e.new = *e.new, *held
		e.old, e.new, e.oldIsFree = e.new, held, true
		held.epoch = uncommitted
		return true
	}
	e.new.epoch = uncommitted
	e.old = entryOf[T](c.entries.put(&e.new.header, place))
	if e.old != nil && e.old.epoch == uncommitted && e.new.repeats(e.old) {
		e.repeated = true
	}
	return false
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

// uncommitted is the epoch of an entry that the current commit has stored or removed.
const uncommitted = math.MaxUint64

// compact frees the memory that node splits leave in the trees: half of each tree
// after a list in key order. A split node keeps the array of both halves. compact
// copies every node, which releases these arrays. The cost grows with the cache, so
// it pays only after a commit that made a good part of the nodes.
func (c *Cache[T]) compact() {
	c.entries.compact()
	for _, x := range c.indexes {
		x.tree.compact()
	}
}

// tell passes a commit to the followers.
func (c *Cache[T]) tell(p *Partition[T], s *txn[T]) {
	changes := c.scratch.commit.Changes[:0]
	for i := range s.mutations {
		changes = s.mutations[i].appendChanges(changes)
	}
	commit := &c.scratch.commit
	*commit = Commit[T]{
		Origin:          s.origin,
		Initial:         s.initial,
		Synced:          c.complete,
		ResourceVersion: c.resourceVersionLocked(),
		ObservedVersion: s.seen,
		Changes:         changes,
	}
	if p != c.whole {
		commit.Partition = p
	}
	tellEach(c.followers, commit)
}

// tellEach passes a commit to followers. If one panics, it still calls the others.
func tellEach[T any](followers []*registration[T], commit *Commit[T]) {
	told := 0
	defer func() {
		if told < len(followers) {
			tellEach(followers[told:], commit)
		}
	}()
	for told < len(followers) {
		told++
		followers[told-1].follower.Commit(commit)
	}
}

// reuse releases the index values of replaced entries, and keeps the memory of a txn for the next
// one.
func (c *Cache[T]) reuse(mutations []mutation[T]) {
	for i := range mutations {
		m := &mutations[i]
		if m.old == nil {
			continue
		}
		c.release(m.old.terms())
		if m.oldIsFree && len(c.scratch.entries) < maxFreeEntries {
			*m.old = entry[T]{}
			c.scratch.entries = append(c.scratch.entries, m.old)
		}
	}
	c.scratch.mutations = recycle(mutations)
	c.scratch.commit = Commit[T]{Changes: recycle(c.scratch.commit.Changes)}
}

// appendChanges appends the changes of a mutation for followers.
func (e *mutation[T]) appendChanges(all []Change[T]) []Change[T] {
	if e.old == nil {
		if e.new == nil {
			return all
		}
		return append(all, e.new.addition())
	}
	held := e.old.known()
	if e.new == nil {
		deletion := e.old.deletion(held)
		deletion.OutOfScope = e.outOfScope
		// The final state of a recreated object is no state of this object.
		if e.final != nil {
			if final := e.final.known(); !held.recreated(final) && !e.outOfScope {
				deletion.Object, deletion.FinalStateKnown = e.final.object, true
				deletion.Version = final
			}
		}
		return append(all, deletion)
	}
	addition := e.new.addition()
	if held.recreated(addition.Version) {
		// The cache did not see the deletion in between. Followers receive both changes, so that
		// they do not take the new object for a later state of the old one
		// (kubernetes/kubernetes#133565).
		return append(all, e.old.deletion(held), addition)
	}
	if e.repeated {
		return all
	}
	addition.Type, addition.Prior = Modification, e.old.object
	return append(all, addition)
}

func (e *entry[T]) addition() Change[T] {
	return Change[T]{Type: Addition, Key: e.key(), Object: e.object, Version: e.known()}
}

func (e *entry[T]) deletion(version Version) Change[T] {
	return Change[T]{Type: Deletion, Key: e.key(), Prior: e.object, Object: e.object, Version: version}
}
