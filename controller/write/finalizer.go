package write

import (
	"context"
	"errors"
	"slices"

	"github.com/kubereflector/kubereflector/controller"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrDeleting means that an object is being deleted, and can get no finalizers any more.
var ErrDeleting = errors.New("object is being deleted: it can get no finalizer")

// Finalize is for objects that have an effect outside of themselves, which is to end with
// them. Call it before the effect, at the beginning of a reconcile function:
//
//   - Of an object that is not being deleted it makes sure that it has the finalizer, and
//     returns it, as alive: now the effect may be made.
//   - Of one that is being deleted, and has the finalizer, it calls cleanup and, if that
//     returns nil, takes the finalizer away.
//   - One that is being deleted and does not have the finalizer is none of its business.
//
// The cleanup gets a [Copy] of the object. It must be such that it may be called again. As long as it returns an error
// the object stays, and its key is reconciled again if that error is returned.
func Finalize[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string, cleanup func(ctx context.Context, object T) error) (current T, alive bool, err error) {
	if held.GetDeletionTimestamp() == nil {
		current, err = AddFinalizer(ctx, client, held, finalizer)
		return current, err == nil, err
	}
	if !slices.Contains(held.GetFinalizers(), finalizer) {
		return held, false, nil
	}
	if err := cleanup(ctx, Copy(held)); err != nil {
		return held, false, err
	}
	current, err = RemoveFinalizer(ctx, client, held, finalizer)
	return current, false, err
}

// AddFinalizer adds a finalizer to the object that is held, unless it has it, and returns
// the object with it.
func AddFinalizer[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string) (T, error) {
	if slices.Contains(held.GetFinalizers(), finalizer) {
		return held, nil
	}
	if held.GetDeletionTimestamp() != nil {
		return held, failed("add finalizer "+finalizer+" to", held, ErrDeleting)
	}
	return setFinalizers(ctx, client, held, append(slices.Clone(held.GetFinalizers()), finalizer))
}

// RemoveFinalizer takes a finalizer away from the object that is held, if it has it. If it
// was the last one of an object that is being deleted, the object is gone then. It is no
// error if it was gone before.
func RemoveFinalizer[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizer string) (T, error) {
	if !slices.Contains(held.GetFinalizers(), finalizer) {
		return held, nil
	}
	others := slices.DeleteFunc(slices.Clone(held.GetFinalizers()), func(other string) bool { return other == finalizer })
	current, err := setFinalizers(ctx, client, held, others)
	if apierrors.IsNotFound(err) {
		controller.Deleted(ctx, held)
		return held, nil
	}
	return current, err
}

func setFinalizers[T metav1.Object](ctx context.Context, client Patcher[T], held T, finalizers []string) (T, error) {
	return send(ctx, client, held, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}
