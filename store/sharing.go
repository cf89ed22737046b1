package store

import "slices"

// How partitions that are shards of one place share its keys: an object that is made anew
// under its old key has another UID, and so belongs to another shard as a rule. The writers
// of the two hear of it at different times.

// sharded reports whether the partition is a shard of a place, in which others may have
// objects as well.
func (p *Partition[T]) sharded() bool { return p.scope != nil && !p.scope.Shard.whole() }

// mine reports whether what is, or was, under a key that the scope contains belongs to the
// partition, and not to one of another shard.
func (p *Partition[T]) mine(key Key, version Version) bool {
	if !p.sharded() {
		return true
	}
	if p.scope.Shard.By == ByNamespace {
		return p.scope.Shard.Contains(ShardHash(key.Namespace))
	}
	return p.scope.Shard.Contains(ShardHash(string(version.UID)))
}

// foreign returns what is held under a key, if it belongs to another shard. The caller holds
// writer.
func (p *Partition[T]) foreign(key Key) (Version, bool) {
	if !p.sharded() {
		return Version{}, false
	}
	held, ok := p.of.heldByWriter(key)
	return held, ok && !p.mine(key, held)
}

// outdated reports whether a state is older than that an object of another shard took the
// key: this shard's writer is behind, and will hear of the end of what it tells of. The
// caller holds writer.
func (p *Partition[T]) outdated(key Key, version Version) bool {
	if displaced, ok := p.displaced[key]; ok && lower(version.ResourceVersion, displaced) {
		return true
	}
	held, ok := p.foreign(key)
	return ok && lower(version.ResourceVersion, held.ResourceVersion)
}

// remove adds an edit to a step that takes out what is held under a key, unless that belongs
// to another shard. The caller holds writer.
func (p *Partition[T]) remove(s *step[T], e edit[T], resourceVersion string) {
	p.moved(s, e.key, resourceVersion)
	if _, foreign := p.foreign(e.key); foreign && !slices.ContainsFunc(s.edits, func(before edit[T]) bool { return before.key == e.key }) {
		return
	}
	p.of.budget.leave(p.of, e.key)
	s.edits = append(s.edits, e)
}

// settle notes, after edits were made, of which other shards' objects the keys were taken,
// and forgets what this shard has caught up with. The caller holds writer.
func (p *Partition[T]) settle(edits []edit[T]) {
	if !p.sharded() {
		return
	}
	for i := range edits {
		e := &edits[i]
		if e.old == nil || e.new == nil || p.mine(e.key, e.old.known()) {
			continue
		}
		for _, other := range p.of.partitions {
			version := e.new.known().ResourceVersion
			if number, _ := reached(version, "1"); !number {
				continue // outdated could not compare it
			}
			if other == p || !other.scope.contains(e.key) || !other.mine(e.key, e.old.known()) {
				continue
			}
			if other.displaced == nil {
				other.displaced = make(map[Key]string)
			}
			other.displaced[e.key] = version
		}
	}
	for key, version := range p.displaced {
		if ok, _ := reached(p.resourceVersion, version); ok {
			delete(p.displaced, key)
		}
	}
}
