package decorate

import (
	"errors"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Tee returns a store that makes every write in all of the given stores, in order.
//
// An error of one store does not stop the others. Tee joins the errors ([errors.Join]); an object
// that two stores reject is named twice.
//
// The resource version is the lowest of all stores, so that a reflector resumes at the store that
// lags most. The other stores then receive changes again, and show older states until they have
// caught up. The resource version is empty if it is empty in one store, or if two stores have
// different versions that are no numbers. Then the reflector lists everything anew.
//
// All stores share the objects: none may change them, nor the slice of a Replace. A reader may see
// a write in the first store before the last one has it. ResourceVersion is safe for concurrent use
// if it is in all stores.
func Tee[T any](stores ...store.Store[T]) store.Store[T] {
	if len(stores) == 0 {
		panic("decorate: Tee needs a store to write to")
	}
	t := &tee[T]{}
	for _, s := range stores {
		t.parts = append(t.parts, newDecorator[T]("Tee", s))
		if t.keyOf == nil {
			t.keyOf = keyFuncOf(s)
		}
	}
	return t
}

type tee[T any] struct {
	parts []decorator[T, T] // at least one; they translate no writes
	keyOf store.KeyFunc[T]  // KeyOf of the first store that has it, or nil
}

var _ store.BatchStore[any] = (*tee[any])(nil)

// all calls write for each store.
func (t *tee[T]) all(write func(store.Store[T]) error) error {
	errs := make([]error, len(t.parts))
	for i := range t.parts {
		errs[i] = write(t.parts[i].dst)
	}
	return joined(errs)
}

// joined returns a single error as it is.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

func (t *tee[T]) Add(object T) error {
	return t.all(func(s store.Store[T]) error { return s.Add(object) })
}

func (t *tee[T]) Update(object T) error {
	return t.all(func(s store.Store[T]) error { return s.Update(object) })
}

func (t *tee[T]) Delete(object T) error {
	return t.all(func(s store.Store[T]) error { return s.Delete(object) })
}

func (t *tee[T]) DeleteKey(key store.Key) error {
	return t.all(func(s store.Store[T]) error { return s.DeleteKey(key) })
}

func (t *tee[T]) Replace(objects []T, resourceVersion string) error {
	return t.all(func(s store.Store[T]) error { return s.Replace(objects, resourceVersion) })
}

func (t *tee[T]) Bookmark(resourceVersion string) error {
	return t.all(func(s store.Store[T]) error { return s.Bookmark(resourceVersion) })
}

func (t *tee[T]) Resumed() {
	for i := range t.parts {
		t.parts[i].Resumed()
	}
}

func (t *tee[T]) Has(key store.Key, version store.Version, hash uint64) bool {
	for i := range t.parts {
		if !t.parts[i].Has(key, version, hash) {
			return false
		}
	}
	return true
}

func (t *tee[T]) KeyOf(object T) (store.Key, error) { return keyed(t.keyOf, object) }

func (t *tee[T]) ResourceVersion() string {
	least := t.parts[0].ResourceVersion()
	for i := range t.parts[1:] {
		version := t.parts[i+1].ResourceVersion()
		if version == least {
			continue
		}
		c, err := resourceversion.CompareResourceVersion(version, least)
		if err != nil { // also if one version is empty
			return ""
		}
		if c < 0 {
			least = version
		}
	}
	return least
}

func (t *tee[T]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != store.Store[T](t) {
		return nil
	}
	b := make(teeBatch[T], len(t.parts))
	for i := range t.parts {
		b[i], _ = Begin(t.parts[i].dst, replace)
	}
	return b
}

// teeBatch has a batch of each store.
type teeBatch[T any] []store.Batch[T]

// Write returns an error only if the batches of all stores have failed. Commit returns the error of
// each failed batch, and commits the others.
func (b teeBatch[T]) Write(w store.Write[T]) error {
	var errs []error
	for _, each := range b {
		if err := each.Write(w); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) < len(b) {
		return nil
	}
	return joined(errs)
}

func (b teeBatch[T]) Keep(key store.Key) {
	for _, each := range b {
		each.Keep(key)
	}
}

func (b teeBatch[T]) Commit(resourceVersion string) error {
	errs := make([]error, len(b))
	for i, each := range b {
		errs[i] = each.Commit(resourceVersion)
	}
	return joined(errs)
}

func (b teeBatch[T]) Discard() {
	for _, each := range b {
		each.Discard()
	}
}
