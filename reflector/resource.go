package reflector

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Resource is a [Client] of one resource whose objects are decoded into T. T needs a
// Kubernetes object's metadata and JSON tags, and nothing else: no generated code,
// no scheme.
//
// Get one from [ForResource]. All methods are safe for concurrent use.
type Resource[T Object] struct {
	client dynamic.ResourceInterface
	name   string
}

// ResourceList is a list of the objects of a [Resource].
type ResourceList[T Object] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

// DecodeError means that an object of the server's does not fit T.
type DecodeError struct {
	// Resource is the resource, such as "foos.example.com/v1".
	Resource string
	// Namespace and Name are those of the object.
	Namespace, Name string
	// Type is the Go type of T, such as "*main.Foo".
	Type string
	Err  error
}

// Error names the resource, the object, the type and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s %s/%s into %s: %v", e.Resource, e.Namespace, e.Name, e.Type, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

var (
	// ErrNoStruct means that a Resource was wanted of something else than a
	// pointer to a struct.
	ErrNoStruct = errors.New("not a pointer to a struct")

	errNoGet = errors.New("client cannot get single objects")
)

// ForResource returns the client of a resource, in one namespace or, with an empty
// one, in all; for resources without namespaces it is empty, too. It returns
// [ErrNoStruct] unless T is a pointer to a struct, and an error if the config is of
// no use.
func ForResource[T Object](config *rest.Config, resource schema.GroupVersionResource, namespace string) (*Resource[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("client of %s for %s: %w", resource.Resource, t, ErrNoStruct)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", resource.Resource, err)
	}
	r := &Resource[T]{
		client: client.Resource(resource),
		name:   resource.GroupResource().String() + "/" + resource.Version,
	}
	if namespace != "" {
		r.client = client.Resource(resource).Namespace(namespace)
	}
	return r, nil
}

// Get returns an object. It returns a [*DecodeError] if the object does not fit T.
func (r *Resource[T]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	object, err := r.client.Get(ctx, name, opts)
	if err != nil {
		var none T
		return none, err
	}
	return r.decode(object)
}

// List returns a page of objects. It returns a [*DecodeError] if one of them does not
// fit T.
func (r *Resource[T]) List(ctx context.Context, opts metav1.ListOptions) (*ResourceList[T], error) {
	from, err := r.client.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	objects, bad := r.decodeAll(from)
	if len(bad) > 0 {
		return nil, bad[0].Err
	}
	list := &ResourceList[T]{
		ListMeta: metav1.ListMeta{
			ResourceVersion: from.GetResourceVersion(), Continue: from.GetContinue(), RemainingItemCount: from.GetRemainingItemCount(),
		},
		Items: objects,
	}
	list.APIVersion, list.Kind = from.GetAPIVersion(), from.GetKind()
	return list, nil
}

// decodeAll returns the objects of a list that fit T, and the others.
func (r *Resource[T]) decodeAll(from *unstructured.UnstructuredList) (objects []T, bad []store.Rejection) {
	objects = make([]T, 0, len(from.Items))
	for i := range from.Items {
		if object, err := r.decode(&from.Items[i]); err == nil {
			objects = append(objects, object)
		} else {
			bad = append(bad, rejection(&from.Items[i], err))
		}
	}
	return objects, bad
}

func rejection(object metav1.Object, err error) store.Rejection {
	return store.Rejection{
		Key:     store.Key{Namespace: object.GetNamespace(), Name: object.GetName()},
		Version: store.Version{UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()},
		Err:     err,
	}
}

// resourceSource is the source that is made from a Resource: an object that does not
// fit T does not keep the others of its list from coming.
type resourceSource[T Object] struct{ *Resource[T] }

func (s resourceSource[T]) check() error {
	if s.Resource == nil {
		return ErrNoClient
	}
	return nil
}

func (s resourceSource[T]) list(ctx context.Context, opts metav1.ListOptions) (page[T], error) {
	from, err := s.client.List(ctx, opts)
	if err != nil {
		return page[T]{}, err
	}
	if isTable(from) {
		return page[T]{}, ErrTable
	}
	p := page[T]{resourceVersion: from.GetResourceVersion(), next: from.GetContinue()}
	p.items, p.lacking = s.decodeAll(from)
	return p, nil
}

func (s resourceSource[T]) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.Watch(ctx, opts)
}

func (s resourceSource[T]) streams() bool { return s.Resource != nil && canStream(s.client) }

// Watch returns a watch whose objects only a reflector can read: a T need not be what
// watch.Interface asks of objects.
func (r *Resource[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := r.client.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		from, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error || event.Type == watch.Bookmark {
			return event, true
		}
		object, err := r.decode(from)
		event.Object = carried[T]{object: object, err: err, Unstructured: from}
		return event, true
	}), nil
}

func (r *Resource[T]) decode(from *unstructured.Unstructured) (T, error) {
	if same, ok := any(from).(T); ok {
		return same, nil
	}
	object := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, object); err != nil {
		var none T
		return none, &DecodeError{
			Resource: r.name, Namespace: from.GetNamespace(), Name: from.GetName(), Type: reflect.TypeFor[T]().String(), Err: err,
		}
	}
	return object, nil
}

// carried is an object in a watch event, which takes nothing but a runtime.Object.
type carried[T any] struct {
	*unstructured.Unstructured
	object T
	err    error
}
