package write

import (
	"context"
	"errors"
	"slices"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// an error, the object stays. Return that error from the reconcile function to retry the key. With
// an error, Finalize returns the held object.
func Finalize[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string, cleanup func(ctx context.Context, object T) error) (current T, alive bool, err error) {
	if isNil(held) {
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
// object.
func AddFinalizer[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string) (T, error) {
	if isNil(held) {
		return held, failed("add finalizer "+finalizer+" to", held, errNil)
	}
	if slices.Contains(held.GetFinalizers(), finalizer) {
		return held, nil
	}
	if held.GetDeletionTimestamp() != nil {
		return held, failed("add finalizer "+finalizer+" to", held, ErrDeleting)
	}
	return setFinalizers(ctx, client, held, append(slices.Clone(held.GetFinalizers()), finalizer))
}

// RemoveFinalizer removes a finalizer from the held object, if it has it. If it was the last one of
// an object that is being deleted, the server then deletes the object. It is no error if the object
// is already gone.
func RemoveFinalizer[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string) (T, error) {
	if isNil(held) {
		return held, failed("remove finalizer "+finalizer+" from", held, errNil)
	}
	if !slices.Contains(held.GetFinalizers(), finalizer) {
		return held, nil
	}
	others := slices.DeleteFunc(slices.Clone(held.GetFinalizers()), func(other string) bool { return other == finalizer })
	current, err := setFinalizers(ctx, client, held, others)
	if apierrors.IsNotFound(err) {
		ownwrites.Report(ctx, ownwrites.Write{Object: held, Deleted: true})
		return held, nil
	}
	return current, err
}

func setFinalizers[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizers []string) (T, error) {
	return sendMetadata(ctx, client, held, "finalizers", held.GetFinalizers(), finalizers)
}
