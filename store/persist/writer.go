package persist

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/kubereflector/kubereflector/store"
)

// writer puts objects into transactions.
type writer[T any] struct {
	codec Codec[T]
	state fileState
	clear bool // what is there is left from a list that was never completed

	// failures are the objects that could not be encoded, and lacking those that could not
	// be before.
	failures failures
	lacking  map[store.Key]change[T]

	// records is how many were written, and bytes how long they were.
	records, bytes int
}

// put makes one transaction: some changes, and where they lead to; nil if more are to
// come.
func (w *writer[T]) put(tx *bolt.Tx, keys []store.Key, changes map[store.Key]change[T], to *progress) error {
	state := w.state
	if w.clear {
		if err := tx.DeleteBucket(objectsBucket); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(objectsBucket); err != nil {
			return err
		}
		state.Objects, state.Sum = 0, 0
	}
	objects := tx.Bucket(objectsBucket)
	if to == nil {
		objects.FillPercent = 0.9 // they come in order
	}
	for _, key := range keys {
		if err := w.putOne(objects, &state, key, changes[key]); err != nil {
			return fmt.Errorf("write %v: %w", key, err)
		}
	}
	state.Transaction++
	state.Filling = to == nil
	if to != nil {
		state.Version, state.Scopes = to.version, to.list()
		for key, c := range w.lacking {
			if _, again := changes[key]; !again {
				state.without(key, c.version)
			}
		}
		for key := range w.failures {
			state.without(key, changes[key].version)
		}
	}
	if err := put(tx.Bucket(metaBucket), stateKey, state); err != nil {
		return err
	}
	tx.OnCommit(func() { w.state, w.clear = state, false })
	return nil
}

func (w *writer[T]) putOne(objects *bolt.Bucket, state *fileState, key store.Key, c change[T]) error {
	name := keyBytes(key)
	old := objects.Get(name)
	var encoded []byte
	if !c.gone {
		var err error
		if encoded, err = encode(w.codec, c.object); err != nil {
			w.failures[key] = err
			if old == nil || sameObject(old, name, c.version) {
				return nil // the older state is better than none, as in the cache
			}
			c.gone = true
		}
	}
	if old != nil {
		state.Objects--
		state.Sum -= uint64(sumOf(old))
	}
	if c.gone {
		return objects.Delete(name)
	}
	sealed := seal(name, content(c.version, encoded))
	state.Objects++
	state.Sum += uint64(sumOf(sealed))
	w.records++
	w.bytes += len(name) + len(sealed)
	return objects.Put(name, sealed)
}

// sameObject reports whether what is written under a key may be an older state of an object.
func sameObject(sealed, name []byte, version store.Version) bool {
	content, _, ok := unseal(name, sealed)
	written, _, ok2 := contents(content)
	return !ok || !ok2 || written.UID == "" || version.UID == "" || written.UID == version.UID
}
