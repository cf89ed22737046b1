package decorate

import (
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/internal/panicked"
	"github.com/kubereflector/kubereflector/store"
)

// BeginWatch starts a batch of a store for one or more events of a watch.
//
// A plain [store.Store], and a store that embeds a [store.BatchStore] without its own BeginBatch,
// gets an adapter. The adapter calls Add, Update, Delete, DeleteKey, Replace and Bookmark, and own
// is false. Write the events of a watch to the adapter one at a time, so that each error belongs to
// its object. Commit stops at a Write.Err. If another write or a resource version follows, Commit adds an
// error that is no [*store.RejectedError].
func BeginWatch[T any](s store.Store[T]) (b store.Batch[T], own bool) { return begin(s, false) }

// BeginList is [BeginWatch] for a list that becomes the content of the store. A plain Store deletes each
// object that Replace omits. So Commit of its adapter stores nothing of a list with a Write.Err or a Keep,
// and returns an error that is no [*store.RejectedError].
func BeginList[T any](s store.Store[T]) (b store.Batch[T], own bool) { return begin(s, true) }

func begin[T any](s store.Store[T], replace bool) (b store.Batch[T], own bool) {
	if batches, ok := s.(store.BatchStore[T]); ok {
		if b := batches.BeginBatch(s, replace); b != nil {
			return b, true
		}
	}
	return &plainBatch[T]{to: s, replace: replace}, false
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

// Resumer is a store that an earlier process may have filled. Its content is stale until a reflector
// has reached the server.
type Resumer interface {
	// Resumed tells the store that its content is no longer stale: it has a list, or the server accepted
	// a watch from its resource version. It may be called often.
	Resumed()
}

// Resumed calls Resumed of a [Resumer], and does nothing to other stores.
func Resumed[T any](s store.Store[T]) {
	if r, ok := s.(Resumer); ok {
		r.Resumed()
	}
}

// plainBatch makes the writes of a batch one by one.
type plainBatch[T any] struct {
	to      store.Store[T]
	replace bool
	writes  []store.Write[T]
	stacks  panicked.Stacks // in the errors of the writes
}

func (b *plainBatch[T]) Write(w store.Write[T]) error {
	w.Err = b.stacks.Bound(w.Err)
	b.writes = append(b.writes, w)
	return nil
}

// Keep rejects the key, which Replace would delete.
func (b *plainBatch[T]) Keep(key store.Key) {
	if b.replace {
		b.writes = append(b.writes, store.Write[T]{Key: key, Err: store.ErrNotHeld})
	}
}

func (b *plainBatch[T]) Discard() { *b = plainBatch[T]{to: b.to, replace: b.replace} }

func (b *plainBatch[T]) Commit(resourceVersion string) error {
	defer b.Discard()
	if b.replace {
		return b.commitList(resourceVersion)
	}
	var rejections []store.Rejection
	var errs []error
	version := "" // of the last write
	for i := range b.writes {
		w := &b.writes[i]
		if w.Err != nil {
			rejections = append(rejections, rejection(w, w.Err))
			if i < len(b.writes)-1 || resourceVersion != "" {
				// The adapter could not keep the resource version before the object.
				errs = append(errs, refused(rejections[len(rejections)-1:]))
			}
			return joinedErrors(rejections, errs)
		}
		err := b.write(w)
		if rejected, ok := err.(*store.RejectedError); ok {
			rejections = append(rejections, rejected.Rejections...)
		} else {
			errs = append(errs, err)
		}
		if version = w.Version.ResourceVersion; version == "" && hasObject(w) {
			version = objectVersion(w.Object)
		}
	}
	if resourceVersion != "" && version != resourceVersion {
		errs = append(errs, b.to.Bookmark(resourceVersion))
	}
	return joinedErrors(rejections, errs)
}

// write makes one write, and a bookmark if the object does not have the version of the write.
func (b *plainBatch[T]) write(w *store.Write[T]) error {
	var err error
	switch {
	case w.Type == store.Addition:
		err = b.to.Add(w.Object)
	case w.Type == store.Modification:
		err = b.to.Update(w.Object)
	case w.Type == store.Deletion && w.FinalStateKnown:
		err = b.to.Delete(w.Object)
	case w.Type == store.Deletion:
		err = b.to.DeleteKey(w.Key)
	default:
		return joinedErrors([]store.Rejection{rejection(w, errNoWrite)}, nil)
	}
	version := w.Version.ResourceVersion
	if err != nil || version == "" || w.Type != store.Deletion && objectVersion(w.Object) == version {
		return err
	}
	return b.to.Bookmark(version)
}

func (b *plainBatch[T]) commitList(resourceVersion string) error {
	keys := make([]store.Key, len(b.writes))
	last := make(map[store.Key]int, len(b.writes)) // the last write of each key
	for i := range b.writes {
		keys[i] = b.keyOf(&b.writes[i])
		last[keys[i]] = i
	}
	var rejections []store.Rejection
	objects := make([]T, 0, len(b.writes))
	for i := range b.writes {
		w := &b.writes[i]
		switch {
		case keys[i] != (store.Key{}) && last[keys[i]] != i:
		case w.Err != nil:
			rejections = append(rejections, rejection(w, w.Err))
		case w.Type == store.Addition || w.Type == store.Modification:
			objects = append(objects, w.Object)
		case w.Type != store.Deletion:
			rejections = append(rejections, rejection(w, errNoWrite))
		}
	}
	if len(rejections) > 0 {
		return refused(rejections)
	}
	return b.to.Replace(objects, resourceVersion)
}

// keyOf returns the key of a write, or the zero Key if it is unknown.
func (b *plainBatch[T]) keyOf(w *store.Write[T]) store.Key {
	if w.Key != (store.Key{}) || !hasObject(w) {
		return w.Key
	}
	var keyOf store.KeyFunc[T]
	if to, ok := b.to.(interface{ KeyOf(T) (store.Key, error) }); ok {
		keyOf = to.KeyOf
	} else if object, ok := any(w.Object).(interface {
		GetName() string
		GetNamespace() string
	}); ok {
		keyOf = func(T) (store.Key, error) { return store.ObjectKey(object) }
	} else {
		return store.Key{}
	}
	key, err := keyed(keyOf, w.Object)
	if err != nil {
		return store.Key{}
	}
	return key
}

// objectVersion returns the known resource version of an object.
func objectVersion[T any](object T) string {
	version, _ := versionOf(object)
	return version.ResourceVersion
}

// errNoWrite means that a write has neither an Err nor a known Type.
var errNoWrite = errors.New("write without a known type: set Type to Addition, Modification or Deletion")

func rejection[T any](w *store.Write[T], err error) store.Rejection {
	return store.Rejection{Key: w.Key, Version: w.Version, Err: err}
}

// joinedErrors returns the error for rejections and other errors; nil for none.
func joinedErrors(rejections []store.Rejection, errs []error) error {
	err := errors.Join(errs...)
	switch {
	case len(rejections) == 0:
		return err
	case err == nil:
		return &store.RejectedError{Rejections: rejections}
	}
	return errors.Join(&store.RejectedError{Rejections: rejections}, err)
}

// refused is the error of a plain [store.Store] that stores nothing of a list, or of the rest of a
// batch. Such a store cannot keep the old state of the rejected objects. The error wraps no cause:
// a cause may be a [*store.RejectedError], which would mean that the other objects were stored.
func refused(rejections []store.Rejection) error {
	return fmt.Errorf("nothing was stored, because %d object(s) were rejected and the store cannot keep their old state; give it the methods of store.BatchStore: %s",
		len(rejections), (&store.RejectedError{Rejections: rejections}).Error())
}
