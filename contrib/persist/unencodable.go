package persist

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// EncodeError names the objects that a transaction could not encode. Their current state is in the
// store, but not in the file. The transaction wrote all other objects.
type EncodeError struct {
	// Key is the first key in order, and Err the error of its codec.
	Key store.Key
	Err error

	// More is the number of the other objects.
	More int
}

// Error names the first object, and counts the others.
func (e *EncodeError) Error() string {
	and := ""
	if e.More > 0 {
		and = fmt.Sprintf(" and %d others", e.More)
	}
	return fmt.Sprintf("encode %q%s: %v; the next process lists them", e.Key, and, e.Err)
}

// Unwrap returns Err.
func (e *EncodeError) Unwrap() error { return e.Err }

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
