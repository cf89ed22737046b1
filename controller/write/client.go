package write

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/missing"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Creator, Patcher and Deleter are the methods that this package calls on a client. A
// [client.Resource] has all of them, and so has every generated typed client. A Resource for all
// namespaces writes each object in its own namespace. A generated client needs the object's namespace.
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
)

// ErrNoVersion means that an object has no UID or no resource version, so it does not come from the
// server.
var ErrNoVersion = errors.New("object has no UID or no resource version: pass it as the server returned it")

// in returns the view of a client for the namespace of an object, if the client has views. A client
// whose namespace is known not to be the object's is refused: the server would answer as if the object did
// not exist.
func in[T metav1.Object, C any](of C, object T) (C, error) {
	namespace, known := stream.NamespaceOf(of)
	if !known || object.GetNamespace() == "" || namespace == object.GetNamespace() {
		return of, nil
	}
	if namespace != "" {
		return of, fmt.Errorf("the client is of the namespace %q: %w", namespace, client.ErrOtherObject)
	}
	if all, ok := any(of).(*client.Resource[T]); ok {
		return any(all.In(object.GetNamespace())).(C), nil
	}
	return of, fmt.Errorf("the client is of all namespaces, whose objects it can only list: pass the client of %q: %w", object.GetNamespace(), client.ErrOtherObject)
}

// errOptions means that a caller passed more options than one value of them holds.
var errOptions = errors.New("more than one metav1.DeleteOptions: pass one with all fields")

// Delete deletes the held object. If the object is already gone, that is no error, even if another
// object has its name now. If the object is already being deleted, Delete sends no request, unless the
// options have a shorter grace period than the object.
//
// opts is at most one metav1.DeleteOptions. Without a propagation policy in it, the policy is
// Background, as for kubectl: the server's own default orphans the pods of a Job. Foreground keeps the
// object until its dependents are gone. The UID is always a precondition. With a resource version as a
// further one, Delete returns every conflict as an error, because the server's answer does not tell an
// object that changed from another one with the same name.
func Delete[T metav1.Object](ctx context.Context, client Deleter, held T, opts ...metav1.DeleteOptions) error {
	switch {
	case stream.IsNil(held):
		return failed("delete", held, errNil)
	case held.GetUID() == "":
		return failed("delete", held, ErrNoVersion)
	case len(opts) > 1:
		return failed("delete", held, errOptions)
	}
	options := deleteOptions(held, opts)
	if held.GetDeletionTimestamp() != nil && !hastens(held, options) {
		return nil
	}
	client, err := in(client, held)
	if err != nil {
		return failed("delete", held, err)
	}
	err = client.Delete(ctx, held.GetName(), options)
	gone := isGone(err, held) || options.Preconditions.ResourceVersion == nil && isReplaced(err, held)
	if err != nil && !gone {
		return failed("delete", held, err)
	}
	if gone || len(options.DryRun) == 0 {
		ownwrites.Report(ctx, ownwrites.Write{Object: held, Deleted: true})
	}
	return nil
}

// deleteOptions returns the options of a request. opts has at most one element.
func deleteOptions(held metav1.Object, opts []metav1.DeleteOptions) metav1.DeleteOptions {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}
	for _, given := range opts {
		options = given
		options.Preconditions = &metav1.Preconditions{}
		if given.Preconditions != nil {
			options.Preconditions.ResourceVersion = given.Preconditions.ResourceVersion
		}
	}
	options.Preconditions.UID = new(held.GetUID())
	//lint:ignore SA1019 the server refuses both
	if options.PropagationPolicy == nil && options.OrphanDependents == nil {
		options.PropagationPolicy = new(metav1.DeletePropagationBackground)
	}
	return options
}

// hastens reports whether the options shorten the grace period of an object that is being deleted.
func hastens(held metav1.Object, options metav1.DeleteOptions) bool {
	left, wanted := held.GetDeletionGracePeriodSeconds(), options.GracePeriodSeconds
	return left != nil && wanted != nil && *wanted < *left
}

// isGone reports whether a server's answer says that an object does not exist. A 404 may also say that
// the server has no such path, or that a webhook missed another object.
func isGone(err error, held metav1.Object) bool {
	return stream.IsObjectMissing(err) && nameIn(err) == held.GetName()
}

// isReplaced reports whether the answer to a deletion with a UID says that another object has the name. A
// webhook may also answer with a conflict, and the object then still exists.
func isReplaced(err error, held metav1.Object) bool {
	return apierrors.IsConflict(err) && !missing.Denial(err) && nameIn(err) == held.GetName()
}

// nameIn returns the name of the object that a server's error is about; empty if it names none.
func nameIn(err error) string {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Details != nil {
		return answer.Status().Details.Name
	}
	return ""
}

func failed(what string, object metav1.Object, err error) error {
	if stream.IsNil(object) {
		return cut.Error(fmt.Sprintf("%s %T", what, object), err)
	}
	key := store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	return cut.Error(fmt.Sprintf("%s %T %s", what, object, key), err)
}

// CreateOrUpdate makes the object with a key as change wants it, and returns the server's object.
// held is the object of the cache, or nil if the cache has none:
//
//	held, _ := deployments.Cache().Get(key)
//	deployment, err := write.CreateOrUpdate(ctx, client, held, key, func(d *appsv1.Deployment) error {
//		d.Spec.Replicas = &site.Spec.Replicas
//		return write.Own(site, siteKind, d)
//	})
//
// Of a held object, change gets a [Copy], and CreateOrUpdate patches the difference: see [Patch].
// Otherwise change gets a new object with only the key, and CreateOrUpdate creates that object. If
// change returns an error, CreateOrUpdate sends no request and returns that error.
//
// An object can exist although the cache does not have it: the cache is late, or it has a selector and
// somebody removed the label. The server then refuses the creation, and CreateOrUpdate reads the object
// and patches that. So change may get an object of another owner: call [Own] in it, which refuses such
// an object. Own takes one that has no controller, such as a ConfigMap that a user made, which would then be
// deleted with the owner. If that must not happen, let change return an error for a d that has a UID and is not
// [metav1.IsControlledBy] the owner.
//
// If the object is being deleted, or the client has no method Get, CreateOrUpdate returns the server's "already
// exists"; return that error from the reconcile function to retry the key.
func CreateOrUpdate[T metav1.Object](ctx context.Context, of interface {
	Creator[T]
	Patcher[T]
}, held T, key store.Key, change func(T) error) (T, error) {
	if value := reflect.ValueOf(held); value.IsValid() && !value.IsZero() {
		// An object without a namespace may be of a key with one, such as that of its owner. A key may leave out the
		// namespace that the client has.
		namespace := held.GetNamespace()
		if held.GetName() != key.Name || namespace != "" && key.Namespace != "" && namespace != key.Namespace {
			return held, failed("change", held, fmt.Errorf("held is not the object of the key %s", key))
		}
		return update(ctx, of, held, change)
	}
	var none T
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return none, cut.Error(fmt.Sprintf("create %s %s", t, key), client.ErrNoStruct)
	}
	object := reflect.New(t.Elem()).Interface().(T)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	if err := change(object); err != nil {
		return none, failed("change", object, err)
	}
	created, err := of.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return adopt(ctx, of, object, change, err)
	}
	if err != nil {
		return none, failed("create", object, err)
	}
	ownwrites.Report(ctx, ownwrites.Write{Object: created, Created: true})
	return created, nil
}

// update patches what change changes.
func update[T metav1.Object](ctx context.Context, of Patcher[T], held T, change func(T) error) (T, error) {
	want := Copy(held)
	if err := change(want); err != nil {
		return held, failed("change", held, err)
	}
	return Patch(ctx, of, held, want)
}

// adopt reads the object that prevents a creation, and patches that. refusal is the server's answer to
// the creation.
func adopt[T metav1.Object](ctx context.Context, of Patcher[T], object T, change func(T) error, refusal error) (none T, err error) {
	of, err = in(of, object)
	if err != nil {
		return none, failed("create", object, err)
	}
	reads, ok := of.(getter[T])
	if !ok {
		return none, failed("create", object, fmt.Errorf("the cache lacks it, and the client has no method Get: pass the object as held: %w", refusal))
	}
	live, err := reads.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case err != nil:
		return none, failed("read the existing", object, fmt.Errorf("%w; after: %w", err, refusal))
	case live.GetDeletionTimestamp() != nil:
		return none, failed("create", object, fmt.Errorf("the object of that name is being deleted: %w", refusal))
	}
	return update(ctx, of, live, change)
}
