package write

import (
	"context"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
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
// An object that the cache does not have yet can exist. The server then answers "already exists";
// return that error from the reconcile function to retry the key.
func CreateOrUpdate[T metav1.Object](ctx context.Context, of interface {
	Creator[T]
	Patcher[T]
}, held T, key store.Key, change func(T) error) (T, error) {
	if value := reflect.ValueOf(held); value.IsValid() && !value.IsZero() {
		want := Copy(held)
		if err := change(want); err != nil {
			return held, failed("change", held, err)
		}
		return Patch(ctx, of, held, want)
	}
	var none T
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return none, stream.Wrap(fmt.Sprintf("create %s %s", t, key), client.ErrNoStruct)
	}
	object := reflect.New(t.Elem()).Interface().(T)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	if err := change(object); err != nil {
		return none, failed("change", object, err)
	}
	created, err := of.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return none, failed("create", object, err)
	}
	ownwrites.Report(ctx, ownwrites.Write{Object: created, Created: true})
	return created, nil
}
