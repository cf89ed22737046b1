package store

import (
	"math"
	"slices"

	"github.com/tidwall/btree"
)

// commit makes a step: readers see the new state, then waiters and followers are
// told. The caller holds writer.
func (c *Cache[T]) commit(p *Partition[T], s *step[T]) {
	s.made = true
	c.edit(p, s)
	// Also if the budget's function ends the goroutine: readers see the new state.
	defer c.announce(p, s)
	c.budget.committed(s.edits)
}

// announce tells waiters and followers of a commit.
func (c *Cache[T]) announce(p *Partition[T], s *step[T]) {
	p.settle(s.edits)
	c.watches.committed(c, p, s.edits, s.lowered)

	changes := c.scratch.commit.Changes[:0]
	// A panic of a follower goes on to the writer; the commit is made all the same.
	defer func() {
		for i := range s.edits {
			if old := s.edits[i].old; old != nil {
				c.release(old.terms())
			}
		}
		c.reuse(s.edits, changes)
	}()
	if len(c.followers) > 0 {
		for i := range s.edits {
			s.edits[i].left = s.edits[i].left || s.left
			changes = s.edits[i].appendChanges(changes)
		}
		c.tell(p, s, changes)
	}
}

// many is the number of edits from which readers are sent to the state before
// the commit while it is made, instead of waiting for it.
const many = 1024

// edit makes the edits of a step, and everything that readers see of it. Point
// reads wait only while the maps change.
func (c *Cache[T]) edit(p *Partition[T], s *step[T]) {
	large := len(s.edits) > many
	var before *Snapshot[T]
	if large {
		before = c.Snapshot() // which stays published until the commit is made
	}
	c.trees.Lock()
	defer c.trees.Unlock()
	c.editTrees(s.edits)
	if large {
		if len(s.edits) >= c.entries.len()/4 {
			c.compact()
		}
		c.mu.Lock()
		c.frozen = before
		c.mu.Unlock()
		c.editTable(s.edits)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !large {
		c.editTable(s.edits)
	}
	c.frozen = nil
	c.published.Store(nil)
	c.generation++
	p.resourceVersion = s.resourceVersion
	if s.replaced {
		p.complete = true
		c.complete = c.complete || c.allComplete(p)
	}
}

// editTrees makes edits in the trees, and finds out what made room.
func (c *Cache[T]) editTrees(edits []edit[T]) {
	var place btree.PathHint // where the last one was
	ordered := slices.IsSortedFunc(edits, func(a, b edit[T]) int { return a.key.Compare(b.key) })
	for i := range edits {
		e := &edits[i]
		if !ordered {
			place = btree.PathHint{}
		}
		kept := false
		if e.new != nil {
			kept = c.put(e, &place)
		} else if old := c.entries.remove(pivot(e.key), &place); old != nil {
			e.old = entryOf[T](old)
		} else {
			continue
		}
		for _, x := range c.indexes {
			x.move(e.old, e.new, kept)
		}
	}
	for i := range edits {
		if e := edits[i].new; e != nil {
			e.epoch = c.epoch
		}
	}
}

func (c *Cache[T]) editTable(edits []edit[T]) {
	for i := range edits {
		switch e := &edits[i]; {
		case e.new != nil:
			c.table.put(e.key, e.new)
		case e.old != nil:
			c.table.remove(e.key)
		}
	}
}

// put puts the new entry of an edit into the tree, and reports whether it is
// where the old one was. An entry that no snapshot has is changed in its place:
// then the edit has the two the other way round. One that an earlier edit of the
// same commit has put is left to that edit, which is still to be told.
func (c *Cache[T]) put(e *edit[T], place *btree.PathHint) (kept bool) {
	e.new.space = c.spaceOf(e.key)
	old := entryOf[T](c.entries.get(&e.new.header, place))
	if old != nil && old.epoch == c.epoch {
		old.swap(e.new)
		e.old, e.new = e.new, old
		old.epoch = unfinished
		return true
	}
	e.new.epoch = unfinished
	e.old = entryOf[T](c.entries.put(&e.new.header, place))
	return false
}

// spaceOf returns the space of a key. The caller holds writer.
func (c *Cache[T]) spaceOf(key Key) *space {
	if s := c.table.shelf(key); s != nil {
		return s.space
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.add(&space{key.Cluster, key.Namespace}).space
}

// unfinished is the epoch of what the current commit has put.
const unfinished = math.MaxUint64

// compact gives back the room that splitting nodes has left in the trees: after a
// list in the order of keys it is half of them. A tree that is not the one its
// nodes were made for copies them before it lets go of them, and copies are no
// larger than need be. It costs as much as the cache holds, whatever the commit: it
// pays only for one that made a good part of the nodes.
func (c *Cache[T]) compact() {
	c.entries.compact()
	for _, x := range c.indexes {
		x.tree.compact()
	}
}

// tell hands a commit to the followers.
func (c *Cache[T]) tell(p *Partition[T], s *step[T], changes []Change[T]) {
	commit := &c.scratch.commit
	*commit = Commit[T]{
		Origin:          s.origin,
		Initial:         s.initial,
		Complete:        c.complete,
		ResourceVersion: c.resourceVersionLocked(),
		Seen:            s.seen,
		Changes:         changes,
	}
	if p != c.whole {
		commit.Partition = p
	}
	tellEach(c.followers, commit)
}

// tellEach hands a commit to followers, also to those after one that panics.
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

// reuse leaves the memory of a step to the next one, without what it refers to.
func (c *Cache[T]) reuse(edits []edit[T], changes []Change[T]) {
	c.scratch.edits = nil // the beginning of edits may be there as well
	if cap(edits) <= maxScratch {
		clear(edits)
		c.scratch.edits = edits[:0]
	}
	c.scratch.commit.Changes, c.scratch.commit.Partition = nil, nil
	if cap(changes) <= maxScratch {
		clear(changes)
		c.scratch.commit.Changes = changes[:0]
	}
}

// appendChanges appends what the edit means to a follower.
func (e *edit[T]) appendChanges(all []Change[T]) []Change[T] {
	if e.old == nil {
		if e.new == nil {
			return all
		}
		return append(all, e.new.addition())
	}
	held := e.old.known()
	if e.new == nil {
		deletion := e.old.deletion(held)
		deletion.Left = e.left
		// The final state of another object says nothing about this one.
		if e.final != nil {
			if final := e.final.known(); !held.recreated(final) && !e.left {
				deletion.Object, deletion.FinalStateKnown = e.final.object, true
				deletion.Version = final
			}
		}
		return append(all, deletion)
	}
	addition := e.new.addition()
	if held.recreated(addition.Version) {
		// The deletion in between went unseen. Both are told, so that
		// nobody mistakes the new object for a later state of the old one
		// (kubernetes/kubernetes#133565).
		return append(all, e.old.deletion(held), addition)
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
