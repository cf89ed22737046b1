package reflector

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is the metadata of a Kubernetes object, which the reflector needs. Object omits
// comparable, so that one piece of machine code serves all pointer types.
type Object interface {
	metav1.Object
}

// Client lists and watches one resource. Every typed client from Kubernetes' code generator is a
// Client: clientset.CoreV1().Pods("default") is a Client[*corev1.Pod, *corev1.PodList].
//
// A reflector never calls Get. Get determines T for the compiler, which List and Watch do not. The
// compiler then infers T, and refuses a store of another type.
type Client[T, L any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// source is a client as a reflector sees it, without the type of its lists.
type source[T Object] interface {
	// check returns an error if the source cannot work.
	check() error
	about() about
	// list and watch may leave out objects that the reflector does not want.
	list(ctx context.Context, opts metav1.ListOptions, w wants[T]) (page[T], error)
	watch(ctx context.Context, opts metav1.ListOptions, w wants[T]) (stream[T], error)
}

// about describes a source.
type about struct {
	resource  string // the name of the resource, if the client knows it
	namespace string // the namespace of all objects, if the client knows it
	streams   bool   // the client can ask for watch-lists
	replayed  bool   // the answers come from a recording, so durations are meaningless
	shared    bool   // several reflectors share the watches
}

// provider is a client with a source of its own.
type provider[T Object] interface {
	// Source returns the client's source. It returns nil if self is a wrapper of the client: the
	// reflector must then call the methods of the wrapper.
	Source(self any) source[T]
}

// wants tells a source which objects the reflector needs.
type wants[T Object] struct {
	holds  holdsFunc // if not nil: skip objects that the store holds
	shards *shardSet // skip objects outside these shards
	// sharding says whether the server or the client selects the shards, according to the last
	// list.
	sharding Sharding
	// take, if it is not nil, may receive the items of a list in order, while the list arrives.
	// These items are then missing from the page. If the list fails, the items that take received
	// are void.
	take func(T)
}

// newSource returns the source of a client.
func newSource[T Object, L any](client Client[T, L]) source[T] {
	if p, ok := any(client).(provider[T]); ok {
		if own := p.Source(client); own != nil {
			return own
		}
	}
	return newClientSource(client)
}

// clientSource is the source for a Client of any other type.
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

func (s *clientSource[T, L]) watch(ctx context.Context, opts metav1.ListOptions, wanted wants[T]) (stream[T], error) {
	w, err := s.open(ctx, opts)
	if err != nil {
		return nil, err
	}
	if of, ok := w.(interface{ Stream(self any) stream[T] }); ok {
		if own := of.Stream(w); own != nil {
			return siftStream(own, wanted.shards), nil
		}
	}
	return siftStream[T](&clientStream[T]{watch: w}, wanted.shards), nil
}

func (s *clientSource[T, L]) open(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.client.Watch(ctx, opts)
	if err == nil && isNil(w) {
		err = errNoWatch
	}
	return w, bounded(err)
}

// isNil reports whether value is nil, or an interface that holds a nil pointer.
func isNil(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func (s *clientSource[T, L]) about() about { return about{streams: canStream(s.client)} }
