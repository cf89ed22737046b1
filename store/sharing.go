package store

import (
	"fmt"
	"slices"
)

// This file decides which partition an object belongs to. It has the rules for partitions that are
// shards of one namespace or cluster (store-S8).
// An object that is created anew under its key has another UID, so it may belong to another shard.
// The writers of the two shards receive the change at different times.

// sharded reports whether other partitions may have objects in the same namespace or cluster.
func (p *Partition[T]) sharded() bool { return p.scope != nil && !p.scope.Shard.IsEverything() }

// inShard reports whether an object belongs to the partition's shard. The scope contains its key.
// It is true if the partition is not sharded.
func (p *Partition[T]) inShard(key Key, version Version) bool {
	return !p.sharded() || p.scope.Contains(key, version)
}

// normalize returns the key that an object has in the cache: a key without a cluster gets the
// cluster of the scope. It returns [ErrOutOfScope] as well if the key is outside of the scope.
func (p *Partition[T]) normalize(key Key) (Key, error) {
	if p.scope == nil || key == (Key{}) {
		return key, nil
	}
	if key.Cluster == "" {
		key.Cluster = p.scope.Cluster
	}
	if !p.scope.mayContain(key) {
		return key, fmt.Errorf("%w: %v", ErrOutOfScope, *p.scope)
	}
	return key, nil
}

// checkOwner returns an error if this partition must not write the object: the object is outside of
// the scope, or belongs to another partition. A partition cannot check the shard of an object
// without the value that the shard hashes. The caller holds writer.
func (p *Partition[T]) checkOwner(key Key, version Version) error {
	if p.scope != nil || key == (Key{}) {
		key, err := p.normalize(key)
		hashed := version.UID != ""
		if p.sharded() && p.scope.Shard.By == ByNamespace {
			hashed = key != (Key{})
		}
		if err == nil && hashed && !p.inShard(key, version) {
			err = fmt.Errorf("%w: %v", ErrOutOfScope, *p.scope)
		}
		return err
	}
	for _, other := range p.of.partitions {
		if other.scope.mayContain(key) && other.claims(key, version) {
			return scopeError(*other.scope, errOverlap)
		}
	}
	return nil
}

// claims reports whether the partition owns an object under a key that the scope contains, or the
// object that the cache holds there. An object without a UID may belong to the partition. The
// caller holds writer.
func (p *Partition[T]) claims(key Key, version Version) bool {
	if !p.sharded() || p.scope.Shard.By == ByNamespace {
		return p.inShard(key, version)
	}
	held, ok := p.of.table.entry(key).held()
	return ok && p.inShard(key, held) || version.UID == "" && !ok || version.UID != "" && p.inShard(key, version)
}

// outOfShard returns the version of the object under a key, and whether another shard owns the
// object. The caller holds writer.
func (p *Partition[T]) outOfShard(key Key) (Version, bool) {
	if !p.sharded() {
		return Version{}, false
	}
	held, ok := p.of.table.entry(key).held()
	return held, ok && !p.inShard(key, held)
}

// outdated reports whether an object of another shard took the key over after this version. Then
// the writer of this shard lags, and will also receive the deletion of its object. The caller holds
// writer.
func (p *Partition[T]) outdated(key Key, version Version) bool {
	if at, ok := p.takenOver[key]; ok && lower(version.ResourceVersion, at) {
		return true
	}
	held, ok := p.outOfShard(key)
	return ok && lower(version.ResourceVersion, held.ResourceVersion)
}

// remove adds a mutation to a txn that deletes the object under a key, unless the object belongs
// to another shard. The caller holds writer.
func (p *Partition[T]) remove(s *txn[T], e mutation[T], resourceVersion string) {
	p.advance(s, e.key, resourceVersion)
	if _, outside := p.outOfShard(e.key); outside && !slices.ContainsFunc(s.mutations, func(before mutation[T]) bool { return before.key == e.key }) {
		return
	}
	p.of.budget.leave(p.of, e.key)
	s.mutations = append(s.mutations, e)
}

// settle runs after a commit. If the commit replaced an object of another shard, settle adds the
// key to takenOver of that shard. It forgets the keys of takenOver whose versions this shard has
// reached. The caller holds writer.
func (p *Partition[T]) settle(mutations []mutation[T]) {
	if !p.sharded() {
		return
	}
	for i := range mutations {
		e := &mutations[i]
		if e.old == nil || e.new == nil || p.inShard(e.key, e.old.known()) {
			continue
		}
		version := e.new.known().ResourceVersion
		if number, _ := reached(version, "1"); !number {
			continue // outdated could not compare it
		}
		for _, other := range p.of.partitions {
			if other == p || !other.scope.mayContain(e.key) || !other.inShard(e.key, e.old.known()) {
				continue
			}
			if other.takenOver == nil {
				other.takenOver = make(map[Key]string)
			}
			other.takenOver[e.key] = version
		}
	}
	for key, version := range p.takenOver {
		if ok, _ := reached(p.resourceVersion, version); ok {
			delete(p.takenOver, key)
		}
	}
}
