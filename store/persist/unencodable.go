package persist

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kubereflector/kubereflector/store"
)

// EncodeError says which objects could not be encoded when a transaction was made, and so
// are not in the file as they are in the store. All else was written.
type EncodeError struct {
	// Key is the first of them, in the order of keys, and Err what its codec said.
	Key store.Key
	Err error

	// More is how many others there were.
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

// error returns what there is to tell of them; nil if there are none.
func (f failures) error() error {
	if len(f) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(f)), store.Key.Compare)
	return &EncodeError{Key: first, Err: f[first], More: len(f) - 1}
}

// maxNamed is how many keys of objects that the file lacks a State has.
const maxNamed = 10

// noteLacking notes what the file lacks after a batch was written. The caller holds writing.
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

// without takes out the version of the part that an object is in which the file lacks, so that
// whoever reads the file lists that part. A watch from an older version would tell of the object
// as well, but would lead back what is newer at first.
func (s *fileState) without(key store.Key, version store.Version) {
	own := false
	for i := range s.Scopes {
		if s.Scopes[i].contains(key, version) {
			s.Scopes[i].Version, own = "", true
		}
	}
	if !own {
		s.Version = ""
	}
}

// encode is the codec's Encode; a panic is an error.
func encode[T any](codec Codec[T], object T) (data []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	return codec.Encode(object)
}
