package write

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Creator, Patcher, Deleter and Applier are what is needed of a client. Every typed client
// that Kubernetes' code generator makes is all of them, and so is a [Resource].
type (
	// Creator creates objects.
	Creator[T any] interface {
		Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	}
	// Patcher patches objects.
	Patcher[T any] interface {
		Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
	}
	// Deleter deletes objects.
	Deleter interface {
		Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	}
	// Applier applies a configuration of an object, as a generated type C or, of a
	// [Resource], the object itself.
	Applier[T, C any] interface {
		Apply(ctx context.Context, config C, opts metav1.ApplyOptions) (T, error)
	}
)

// ErrNoVersion means that an object has no UID or no resource version, and so was not
// read from the server.
var ErrNoVersion = errors.New("object has no UID or no resource version: pass it as the server returned it")

// Create creates an object, and returns it as the server does.
func Create[T metav1.Object](ctx context.Context, client Creator[T], object T) (T, error) {
	created, err := client.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return created, failed("create", object, err)
	}
	controller.Wrote(ctx, created)
	return created, nil
}

// Delete deletes the object that is held, if it is still there: it is no error if it is
// gone, even though another one has its name. Nothing is asked if it is being deleted
// already.
func Delete[T metav1.Object](ctx context.Context, client Deleter, held T) error {
	if held.GetUID() == "" {
		return failed("delete", held, ErrNoVersion)
	}
	if held.GetDeletionTimestamp() != nil {
		return nil
	}
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(held.GetUID()))}
	err := client.Delete(ctx, held.GetName(), only)
	if err != nil && !apierrors.IsNotFound(err) && !replaced(err) {
		return failed("delete", held, err)
	}
	controller.Deleted(ctx, held)
	return nil
}

// replaced reports whether the server says that another object has the name. A webhook may answer
// with a conflict, too: that one is not about an object, and the object is still there.
func replaced(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Name != ""
}

func failed(what string, object metav1.Object, err error) error {
	key := store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	return fmt.Errorf("%s %T %s: %w", what, object, key, err)
}
