package write

import (
	"context"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
// an object. If the object is being deleted, or the client has no method Get, CreateOrUpdate returns
// the server's "already exists"; return that error from the reconcile function to retry the key.
func CreateOrUpdate[T metav1.Object](ctx context.Context, of interface {
	Creator[T]
	Patcher[T]
}, held T, key store.Key, change func(T) error) (T, error) {
	if value := reflect.ValueOf(held); value.IsValid() && !value.IsZero() {
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
