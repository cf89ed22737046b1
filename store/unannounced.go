package store

import "github.com/kubereflector/kubereflector/internal/ours"

// WriteUnannounced makes writes in one commit that only readers see: no follower gets it, so there is no
// event, and no version moves. The next write of a key, or the next list, replaces what it has
// written, and followers get the change even if the content is the same: they do not know it yet. The
// change has the unannounced object as Prior. If a key stays deleted, they get the deletion then. It is for
// the informers of package clientgo, to whose caches tests write beside a reflector. Others cannot name its
// argument.
func (c *Cache[T]) WriteUnannounced(_ ours.Only, writes ...Write[T]) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	tx, err := c.begin(nil, Watch)
	if err != nil {
		return err
	}
	// The reflector's progress must not change, so this commit moves one that is thrown away.
	tx.progress, tx.unannounced = new(progress), true
	tx.mutations = c.scratch.mutations[:0]
	for i := range writes {
		w := c.identify(nil, &writes[i])
		w.hash = unannouncedHash
		tx.decide(&w)
	}
	if len(tx.mutations) > 0 {
		tx.publish()
	}
	return rejectedError(tx.rejections)
}

// rememberAbsent keeps the states that an unannounced commit deletes, unless followers never knew the object.
// If another commit deletes them again, they are what it deletes, so that followers get the deletion. Only
// Drop ignores them, because the caches of package clientgo have no partitions.
func (tx *txn[T]) rememberAbsent() {
	c := tx.cache
	for i := range tx.mutations {
		m := &tx.mutations[i]
		absent, unseen := c.absent[m.key], c.unseen[m.key]
		if m.before != nil && m.after == nil || !tx.unannounced {
			delete(c.unseen, m.key)
		}
		switch {
		case m.after != nil:
			if m.before == nil && absent == nil && tx.unannounced {
				if c.unseen == nil {
					c.unseen = map[Key]bool{}
				}
				c.unseen[m.key] = true
			}
			delete(c.absent, m.key)
		case m.before != nil && tx.unannounced && len(c.followers) > 0 && !unseen:
			if c.absent == nil {
				c.absent = map[Key]*entry[T]{}
			}
			c.absent[m.key] = &entry[T]{header: m.before.header, object: m.before.object}
		case m.before == nil && absent != nil && !tx.unannounced:
			m.before = absent
			delete(c.absent, m.key)
		}
	}
	if len(c.absent) == 0 {
		c.absent = nil
	}
	if len(c.unseen) == 0 {
		c.unseen = nil
	}
}
