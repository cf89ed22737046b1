package write

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrDeleting means that an object is being deleted, and can get no further finalizers.
var ErrDeleting = errors.New("object is being deleted: it can get no finalizer")

// Finalize is for objects with an effect outside of the cluster, which must end with the object.
// Call it at the beginning of a reconcile function, before the effect:
//
//   - If the object is not being deleted, Finalize makes sure that it has the finalizer, and
//     returns it as alive. The effect may follow. If the held object has the finalizer already, no
//     request proves that it is still there: see write-W4.
//   - If the object is being deleted and has the finalizer, Finalize calls cleanup. If cleanup
//     returns nil, Finalize removes the finalizer.
//   - If the object is being deleted and does not have the finalizer, Finalize does nothing.
//
// The cleanup gets a [Copy] of the object. It may be called more than once. As long as it returns
// an error, the object stays. Return that error from the reconcile function to retry the key. If the
// cleanup has to wait for an event, such as the deletion of a dependent, do not call Finalize before:
// waiting is no failure. With an error, and if it sends no request, Finalize returns the held object,
// which a cache and its readers may share.
func Finalize[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string, cleanup func(ctx context.Context, object T) error) (current T, alive bool, err error) {
	if stream.IsNil(held) {
		return held, false, failed("finalize", held, errNil)
	}
	if held.GetDeletionTimestamp() == nil {
		if current, err = AddFinalizer(ctx, client, held, finalizer); err != nil {
			return held, false, err
		}
		return current, true, nil
	}
	if !slices.Contains(held.GetFinalizers(), finalizer) {
		return held, false, nil
	}
	if err := cleanup(ctx, Copy(held)); err != nil {
		return held, false, err
	}
	if current, err = RemoveFinalizer(ctx, client, held, finalizer); err != nil {
		return held, false, err
	}
	return current, false, nil
}

// AddFinalizer adds a finalizer to the held object, unless it has it, and returns the resulting
// object. It is an error if that does not have it, because a webhook removed it, or T's JSON has none.
func AddFinalizer[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string) (T, error) {
	if stream.IsNil(held) {
		return held, failed("add finalizer "+finalizer+" to", held, errNil)
	}
	if slices.Contains(held.GetFinalizers(), finalizer) {
		return held, nil
	}
	if held.GetDeletionTimestamp() != nil {
		return held, failed("add finalizer "+finalizer+" to", held, ErrDeleting)
	}
	want := Copy(held)
	want.SetFinalizers(append(want.GetFinalizers(), finalizer))
	current, err := Patch(ctx, client, held, want)
	if err == nil && (stream.IsNil(current) || !slices.Contains(current.GetFinalizers(), finalizer)) {
		err = failed("add finalizer "+finalizer+" to", held, errNoEffect)
	}
	return current, err
}

// errNoEffect means that the JSON of the type lacks the member, or that a webhook has undone the change. An effect
// that a finalizer is for must not begin then, and its removal would be tried again and again.
var errNoEffect = errors.New("the answer does not show the change: a webhook has undone it, or the JSON of the type lacks the member")

// RemoveFinalizer removes a finalizer from the held object, if it has it. If it was the last one of
// an object that is being deleted, the server then deletes the object. It is no error if the object
// is already gone.
func RemoveFinalizer[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string) (T, error) {
	if stream.IsNil(held) {
		return held, failed("remove finalizer "+finalizer+" from", held, errNil)
	}
	if !slices.Contains(held.GetFinalizers(), finalizer) {
		return held, nil
	}
	want := Copy(held)
	want.SetFinalizers(slices.DeleteFunc(want.GetFinalizers(), func(other string) bool { return other == finalizer }))
	current, err := Patch(ctx, client, held, want)
	if isGone(err, held) {
		gone := Copy(held) // as the server answers who removes the last finalizer
		gone.SetFinalizers(nil)
		ownwrites.Report(ctx, ownwrites.Write{Object: gone, Deleted: true})
		return held, nil
	}
	if err == nil && !stream.IsNil(current) && slices.Contains(current.GetFinalizers(), finalizer) {
		err = failed("remove finalizer "+finalizer+" from", held, errNoEffect)
	}
	return current, err
}

// ErrOtherNamespace means that the owner has a namespace, and the object is not in that namespace.
var ErrOtherNamespace = errors.New("an owner with a namespace owns objects of its own namespace only")

// OwnedError says that an object belongs to another controller.
type OwnedError struct {
	// Key is the key of the object.
	Key store.Key
	// Owner is the object's controller.
	Owner metav1.OwnerReference
}

// Error names the object and its owner.
func (e *OwnedError) Error() string {
	return cut.Text(fmt.Sprintf("%s belongs to %s %s, UID %s", e.Key, e.Owner.Kind, e.Owner.Name, e.Owner.UID), cut.MaxText)
}

// Own makes an owner the controller of an object before it is written, as [metav1.NewControllerRef]
// does: Kubernetes deletes the object after the owner. It returns an [*OwnedError] if the object
// has another controller, and [ErrOtherNamespace] if the namespaces do not match. Other owner
// references stay. Copy an object from a cache first.
func Own[O, T metav1.Object](owner O, kind schema.GroupVersionKind, object T) error {
	refs, err := owned(owner, kind, object)
	if err == nil {
		object.SetOwnerReferences(refs)
	}
	return err
}

// Adopt is [Own] for an existing object: it patches the held object, unless the object already
// belongs to the owner. It is an error if it does not belong to the owner after that.
func Adopt[O, T metav1.Object](ctx context.Context, client Patcher[T], owner O, kind schema.GroupVersionKind, held T) (T, error) {
	if stream.IsNil(held) || stream.IsNil(owner) {
		return held, failed("adopt", held, errNil)
	}
	if metav1.IsControlledBy(held, owner) {
		return held, nil
	}
	refs, err := owned(owner, kind, held)
	if err != nil {
		return held, err
	}
	want := Copy(held)
	want.SetOwnerReferences(refs)
	current, err := Patch(ctx, client, held, want)
	if err == nil && (stream.IsNil(current) || !metav1.IsControlledBy(current, owner)) {
		err = failed("adopt", held, errNoEffect)
	}
	return current, err
}

// owned returns the owner references of an object with the owner as its controller.
func owned(owner metav1.Object, kind schema.GroupVersionKind, object metav1.Object) ([]metav1.OwnerReference, error) {
	if stream.IsNil(owner) || stream.IsNil(object) {
		return nil, failed("own", object, errNil)
	}
	key := store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	if owner.GetNamespace() != "" && owner.GetNamespace() != object.GetNamespace() {
		return nil, cut.Error(fmt.Sprintf("%s, owned by %s in %s", key, owner.GetName(), owner.GetNamespace()), ErrOtherNamespace)
	}
	if owner.GetUID() == "" {
		return nil, cut.Error(fmt.Sprintf("owner %s of %s", owner.GetName(), key), ErrNoVersion)
	}
	if other := metav1.GetControllerOf(object); other != nil && other.UID != owner.GetUID() {
		return nil, &OwnedError{Key: key, Owner: *other}
	}
	refs, ref := slices.Clone(object.GetOwnerReferences()), *metav1.NewControllerRef(owner, kind)
	if at := slices.IndexFunc(refs, func(other metav1.OwnerReference) bool { return other.UID == ref.UID }); at >= 0 {
		refs[at] = ref // at the same index: another order would be a change
		return refs, nil
	}
	return append(refs, ref), nil
}
