package decorate

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/panicked"
	"github.com/kubereflector/kubereflector/store"
)

// decorator turns writes of T into writes of S.
type decorator[T, S any] struct {
	dst store.Store[S]
	// batches is dst if dst has its own batches.
	batches store.BatchStore[S]
	// self is the Transform or Filter that embeds the decorator. pass translates a write for dst.
	self store.Store[T]
	pass func(store.Write[T]) store.Write[S]
}

// newDecorator panics without a store.
func newDecorator[T, S any](name string, dst store.Store[S]) decorator[T, S] {
	if isNil(dst) {
		panic(fmt.Sprintf("decorate: %s needs a store to write to", name))
	}
	return decorator[T, S]{dst: dst, batches: batchesOf(dst)}
}

// batchesOf returns a store if it has its own batches, and nil if not.
func batchesOf[T any](s store.Store[T]) store.BatchStore[T] {
	b, own := BeginWatch(s)
	b.Discard()
	if !own {
		return nil
	}
	return s.(store.BatchStore[T])
}

func (d *decorator[T, S]) Add(object T) error {
	return d.write(store.Write[T]{Type: store.Addition, Object: object})
}

func (d *decorator[T, S]) Update(object T) error {
	return d.write(store.Write[T]{Type: store.Modification, Object: object})
}

func (d *decorator[T, S]) Delete(object T) error {
	return d.write(store.Write[T]{Type: store.Deletion, Object: object, FinalStateKnown: true})
}

func (d *decorator[T, S]) write(w store.Write[T]) error {
	b, _ := BeginWatch(d.dst)
	defer b.Discard()
	_ = b.Write(d.pass(w)) // Commit returns the error
	return b.Commit("")
}

func (d *decorator[T, S]) DeleteKey(key store.Key) error { return d.dst.DeleteKey(key) }

func (d *decorator[T, S]) Replace(objects []T, resourceVersion string) error {
	return replace(d.self, objects, resourceVersion)
}

// replace replaces the content of a store by a batch of its own.
func replace[T any](s store.Store[T], objects []T, resourceVersion string) error {
	b, _ := BeginList(s)
	defer b.Discard()
	for i := range objects {
		if err := b.Write(store.Write[T]{Type: store.Addition, Object: objects[i]}); err != nil {
			break // Commit returns it
		}
	}
	return b.Commit(resourceVersion)
}

func (d *decorator[T, S]) Bookmark(resourceVersion string) error {
	return d.dst.Bookmark(resourceVersion)
}

func (d *decorator[T, S]) ResourceVersion() string { return d.dst.ResourceVersion() }

func (d *decorator[T, S]) Has(key store.Key, version store.Version, hash uint64) bool {
	return d.batches != nil && d.batches.Has(key, version, hash)
}

func (d *decorator[T, S]) Resumed() { Resumed(d.dst) }

// Resumer is a store that an earlier process may have filled. Its content is stale until a reflector
// has reached the server.
type Resumer interface {
	// Resumed tells the store that the server accepted a watch from the store's resource version. No
	// list follows.
	Resumed()
}

// Resumed calls Resumed of a [Resumer], and does nothing to other stores.
func Resumed[T any](s store.Store[T]) {
	if r, ok := s.(Resumer); ok {
		r.Resumed()
	}
}

func (d *decorator[T, S]) BeginBatch(self store.Store[T], replace bool) store.Batch[T] {
	if self != d.self {
		return nil
	}
	b := &batch[T, S]{of: d}
	b.into, _ = begin(d.dst, replace)
	return b
}

// batch passes each write to a batch of the store behind, as the decorator changed it.
type batch[T, S any] struct {
	of   *decorator[T, S]
	into store.Batch[S]
}

func (b *batch[T, S]) Write(w store.Write[T]) error        { return b.into.Write(b.of.pass(w)) }
func (b *batch[T, S]) Keep(key store.Key)                  { b.into.Keep(key) }
func (b *batch[T, S]) Commit(resourceVersion string) error { return b.into.Commit(resourceVersion) }
func (b *batch[T, S]) Discard()                            { b.into.Discard() }

// hasObject reports whether a write has an object for the function of a decorator.
func hasObject[T any](w *store.Write[T]) bool {
	return w.Err == nil && (w.Type == store.Addition || w.Type == store.Modification || w.Type == store.Deletion && w.FinalStateKnown)
}

// keyFuncOf returns the KeyFunc of a store, or nil if the store has no method KeyOf.
func keyFuncOf[T any](s store.Store[T]) store.KeyFunc[T] {
	if keyed, ok := s.(interface{ KeyOf(T) (store.Key, error) }); ok {
		return keyed.KeyOf
	}
	return nil
}

// identify derives the key and the version of the object of a write, unless the write gives them.
func identify[T any](keyOf store.KeyFunc[T], w *store.Write[T]) (key store.Key, version store.Version, err error) {
	key, err = keyed(keyOf, w.Object)
	if version = w.Version; version == (store.Version{}) {
		told, problem := versionOf(w.Object)
		if version = told; err == nil && problem != nil {
			key, err = store.Key{}, problem
		}
	}
	if w.Key == (store.Key{}) {
		return key, version, err
	}
	if err == nil && key != w.Key {
		err = fmt.Errorf("%w: it is %.253q, but the write says %.253q", store.ErrBadKey, key, w.Key)
	}
	return w.Key, version, err
}

// errNoKeyFunc means that the store behind does not say how it derives keys.
var errNoKeyFunc = errors.New("store behind has no method KeyOf(T) (store.Key, error): add it")

// keyed runs a KeyFunc. Without one there is no key.
func keyed[T any](keyOf store.KeyFunc[T], object T) (key store.Key, err error) {
	defer func() {
		if value := recover(); value != nil {
			key, err = store.Key{}, panicked.Error(value)
		}
	}()
	if keyOf == nil {
		return store.Key{}, errNoKeyFunc
	}
	if key, err = keyOf(object); err == nil && key == (store.Key{}) {
		err = fmt.Errorf("%w: the KeyFunc returned an empty one", store.ErrBadKey)
	}
	return key, err
}

// versionOf returns the version of an object, or an error if its methods panic.
func versionOf[T any](object T) (version store.Version, err error) {
	defer func() {
		if value := recover(); value != nil {
			version, err = store.Version{}, panicked.Error(value)
		}
	}()
	return store.VersionOf(object), nil
}

// mayBeNil reports whether T has a nil value that is no object. A nil slice or map is like an empty
// one.
func mayBeNil[T any]() bool {
	kind := reflect.TypeFor[T]().Kind()
	return kind == reflect.Pointer || kind == reflect.Interface
}

// isNil reports whether a value is nil, or a nil pointer.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
