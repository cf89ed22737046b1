package reflector

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is what a reflector needs of the objects that it reflects: a Kubernetes
// object's metadata. It leaves out comparable, so that one piece of machine code
// serves all types that are pointers.
type Object interface {
	metav1.Object
}

// Client lists and watches one resource. Every typed client that Kubernetes'
// code generator makes is one: clientset.CoreV1().Pods("default") is a
// Client[*corev1.Pod, *corev1.PodList].
//
// A reflector never calls Get. It is here because Get says what T is, which
// neither List nor Watch does: thanks to it the compiler finds T, and refuses a
// store of another type.
type Client[T, L any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// source is a client as a reflector sees it: the type of lists is gone.
type source[T Object] interface {
	// check returns an error if the source cannot work.
	check() error
	// list and watch may leave out what is not wanted.
	list(ctx context.Context, opts metav1.ListOptions, w wants[T]) (page[T], error)
	watch(ctx context.Context, opts metav1.ListOptions, w wants[T]) (feed[T], error)
	// streams reports whether the client can ask for watch-lists.
	streams() bool
}

// wants says what a reflector needs of what a server sends.
type wants[T Object] struct {
	holds  holdsFunc // not what is held, if it is not nil
	shards *shardSet // not what is in none of these
	// sharding says who leaves that out, as far as the last list told.
	sharding Sharding
	// take, if it is not nil, may be given the items of a list while it comes, in their order,
	// instead of having them in its page. What it was given of a list that fails is void.
	take func(T)
}

// newSource returns the source that is made from a client. Resource and Replay are told by their
// types, and not by an interface: whoever wraps one wants the wrapper to be called.
func newSource[T Object, L any](client Client[T, L]) source[T] {
	switch client := any(client).(type) {
	case *Resource[T]:
		return resourceSource[T]{client}
	case *Replay[T]:
		return replaySource[T]{client}
	case *SharedClient[T, L]:
		return sharedSource[T]{client.sharing()}
	}
	return newClientSource(client)
}

// clientSource is the source that is made from a Client.
type clientSource[T Object, L any] struct {
	client Client[T, L]
	lists  listType[T, L]
}

func newClientSource[T Object, L any](client Client[T, L]) *clientSource[T, L] {
	return &clientSource[T, L]{client: client, lists: newListType[T, L]()}
}

func (s *clientSource[T, L]) check() error {
	if isNil(s.client) {
		return ErrNoClient
	}
	return s.lists.err
}

func (s *clientSource[T, L]) list(ctx context.Context, opts metav1.ListOptions, w wants[T]) (page[T], error) {
	list, err := s.client.List(ctx, opts)
	if err != nil {
		return page[T]{}, bounded(err)
	}
	p, err := s.lists.page(list)
	siftPage(w.shards, &p)
	return p, err
}

func (s *clientSource[T, L]) watch(ctx context.Context, opts metav1.ListOptions, _ wants[T]) (feed[T], error) {
	w, err := s.client.Watch(ctx, opts)
	if err == nil && isNil(w) {
		err = errNoWatch
	}
	return feed[T]{watch: w}, bounded(err)
}

// isNil reports whether value is nil, or an interface that holds a nil pointer.
func isNil(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func (s *clientSource[T, L]) streams() bool { return canStream(s.client) }
