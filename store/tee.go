package store

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Tee returns a store that makes every write in all of the given stores, in
// order. It is a [BatchStore], and gives a batch to each store as one batch.
//
// An error of one store does not stop the others; the errors come back joined
// ([errors.Join]), so that each can still be found, and one object that two stores
// reject is named twice. Without stores every write fails with [ErrNoStore]; a nil
// among them fails with it, and the others are written to.
//
// The resource version is the least of all, so that a reflector resumes where the
// store is that is furthest behind. The others are then told again what they know,
// and show older states until that is over. It is empty, so that everything is
// listed anew, if that of one store is, and if two differ that are no numbers.
//
// All stores hold the same objects: none may change them, nor the slice of a
// Replace. The stores are written to one after the other without a lock, so a
// reader may see a write in the first that the last does not have yet, and two
// writes at a time may come to the stores in different order: let one goroutine
// write at a time, as a reflector does. ResourceVersion is as safe for concurrent
// use as that of the stores.
func Tee[T any](stores ...Store[T]) Store[T] {
	t := &tee[T]{}
	for _, s := range stores {
		t.stores = append(t.stores, destination(s))
		if t.keyOf == nil {
			t.keyOf = keyFuncOf(s)
		}
	}
	if len(t.stores) == 0 {
		t.stores = append(t.stores, nowhere[T]{})
	}
	return t
}

type tee[T any] struct {
	stores []BatchStore[T] // at least one
	keyOf  KeyFunc[T]      // that of the first store which tells, or nil
}

var _ BatchStore[any] = (*tee[any])(nil)

// all calls write for each store.
func (t *tee[T]) all(write func(BatchStore[T]) error) error {
	errs := make([]error, len(t.stores))
	for i, s := range t.stores {
		errs[i] = write(s)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

func (t *tee[T]) Add(object T) error {
	return t.all(func(s BatchStore[T]) error { return s.Add(object) })
}

func (t *tee[T]) Update(object T) error {
	return t.all(func(s BatchStore[T]) error { return s.Update(object) })
}

func (t *tee[T]) Delete(object T) error {
	return t.all(func(s BatchStore[T]) error { return s.Delete(object) })
}

func (t *tee[T]) DeleteKey(key Key) error {
	return t.all(func(s BatchStore[T]) error { return s.DeleteKey(key) })
}

func (t *tee[T]) Replace(objects []T, resourceVersion string) error {
	return t.all(func(s BatchStore[T]) error { return s.Replace(objects, resourceVersion) })
}

func (t *tee[T]) Bookmark(resourceVersion string) error {
	return t.all(func(s BatchStore[T]) error { return s.Bookmark(resourceVersion) })
}

func (t *tee[T]) Apply(batch *Batch[T]) error {
	if batch == nil {
		batch = &Batch[T]{} // the stores may be anybody's
	}
	return t.all(func(s BatchStore[T]) error { return s.Apply(batch) })
}

func (t *tee[T]) ReplaceAll(listing Listing[T]) error {
	return t.all(func(s BatchStore[T]) error { return s.ReplaceAll(listing) })
}

func (t *tee[T]) Resumed() {
	for _, s := range t.stores {
		resumed(s.Itself())
	}
}

func (t *tee[T]) Holds(key Key, version Version) bool {
	for _, s := range t.stores {
		if !s.Holds(key, version) {
			return false
		}
	}
	return true
}

func (t *tee[T]) Itself() Store[T] { return t }

func (t *tee[T]) KeyOf(object T) (Key, error) {
	key, _, err := identify(t.keyOf, false, object)
	return key, err
}

func (t *tee[T]) ResourceVersion() string {
	least := t.stores[0].ResourceVersion()
	for _, s := range t.stores[1:] {
		version := s.ResourceVersion()
		if version == least {
			continue
		}
		c, err := resourceversion.CompareResourceVersion(version, least)
		if err != nil { // so also if one is empty
			return ""
		}
		if c < 0 {
			least = version
		}
	}
	return least
}
