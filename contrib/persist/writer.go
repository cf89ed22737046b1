package persist

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kubereflector/kubereflector/store"
	bolt "go.etcd.io/bbolt"
)

// writer writes objects in transactions.
type writer[T any] struct {
	codec Codec[T]
	state fileState
	clear bool // the file has objects of a list that was never completed

	// failures are the objects that this writer could not encode. lacking are the objects that
	// earlier writers could not encode.
	failures failures
	lacking  map[store.Key]change[T]

	// records is the number of records written, and bytes their total length.
	records, bytes int
}

// put writes some changes in one transaction, and the versions after them. to is nil if more
// transactions follow.
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
		objects.FillPercent = 0.9 // keys come in order
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
				return nil // an older state is better than none, as in the cache
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

// sameObject reports whether the record under a key may be an older state of the same object.
func sameObject(sealed, name []byte, version store.Version) bool {
	content, _, ok := unseal(name, sealed)
	written, _, ok2 := contents(content)
	return !ok || !ok2 || written.UID == "" || version.UID == "" || written.UID == version.UID
}

// failures are objects that could not be encoded.
type failures map[store.Key]error

// error returns an [*EncodeError], or nil if there are no failures.
func (f failures) error() error {
	if len(f) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(f)), store.Key.Compare)
	return &EncodeError{Key: first, Err: f[first], More: len(f) - 1}
}

// maxNamed is the largest number of keys in State.UnencodedKeys.
const maxNamed = 10

// noteLacking records the objects that the file lacks after a batch was written. The caller holds
// writing.
func (s *Store[T]) noteLacking(batch pending[T], w writer[T]) {
	before := len(s.lacking)
	for key, c := range batch.changes {
		if _, failed := w.failures[key]; !failed {
			delete(s.lacking, key)
			continue
		}
		if s.lacking == nil {
			s.lacking = map[store.Key]change[T]{}
		}
		c.fresh = false
		s.lacking[key] = c
	}
	if len(w.failures) > 0 || len(s.lacking) != before {
		keys := slices.SortedFunc(maps.Keys(s.lacking), store.Key.Compare)
		s.named = slices.Clone(keys[:min(len(keys), maxNamed)])
	}
}

// without removes the version of the scope that contains an object which the file lacks. The next
// process then lists that scope. A watch from an older version would deliver the object as well,
// but would first set newer objects back to older states.
func (s *fileState) without(key store.Key, version store.Version) {
	own := false
	for i := range s.Scopes {
		if s.Scopes[i].scope().Contains(key) {
			s.Scopes[i].Version, own = "", true
		}
	}
	if !own {
		s.Version = ""
	}
}

// encode calls the codec's Encode, and turns a panic into an error.
func encode[T any](codec Codec[T], object T) (data []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	return codec.Encode(object)
}
