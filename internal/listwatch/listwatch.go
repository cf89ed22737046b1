package listwatch

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// errNoList means that a ListerWatcher returned neither objects nor an error.
var errNoList = errors.New("ListerWatcher returned no list and no error")

// Known is a ListerWatcher of which is known what it leaves out.
type Known struct {
	cache.ListerWatcher
	Namespace string // empty for all namespaces
	Selects   bool   // it selects objects by itself
	// Get returns an object of any namespace. It is nil if the ListerWatcher has no client for that.
	Get func(ctx context.Context, namespace, name string) (metav1.Object, error)
}

// Client returns a ListerWatcher as a client of objects of any type. It returns nil for a nil
// ListerWatcher.
func Client[T reflector.Object](lw cache.ListerWatcher) reflector.Client[T, *List[T]] {
	if stream.IsNil(lw) {
		return nil
	}
	of, ok := lw.(*Known)
	if !ok {
		return client.ListWatch[T](lister[T]{cache.ToListerWatcherWithContext(lw), lw})
	}
	return known[T]{client.ListWatch[T](lister[T]{cache.ToListerWatcherWithContext(of.ListerWatcher), of.ListerWatcher}), of}
}

// known is a client of a Known.
type known[T reflector.Object] struct {
	*client.Adapter[T, *List[T]]
	of *Known
}

// KnownNamespace returns the namespace.
func (k known[T]) KnownNamespace() (namespace string, known bool) { return k.of.Namespace, true }

// SelectsObjects reports whether there may be objects that are not listed.
func (k known[T]) SelectsObjects() bool { return k.of.Selects }

// GetIn returns an object.
func (k known[T]) GetIn(ctx context.Context, namespace, name string) (object T, err error) {
	if k.of.Get == nil {
		return object, stream.ErrNoGet
	}
	got, err := k.of.Get(ctx, namespace, name)
	if err != nil {
		return object, err
	}
	object, ok := got.(T)
	if !ok {
		return object, fmt.Errorf("client returned a %T, want a %s", got, reflect.TypeFor[T]())
	}
	return object, nil
}

// Both returns a tweak of options after which an earlier field selector has to match, too. Most tweaks assign
// to the field selector, and the reflector's probe has one of its own. Both returns nil for nil.
func Both(tweak func(*metav1.ListOptions)) func(*metav1.ListOptions) {
	if tweak == nil {
		return nil
	}
	return func(o *metav1.ListOptions) {
		asked := o.FieldSelector
		tweak(o)
		switch {
		case asked == "" || o.FieldSelector == asked:
		case o.FieldSelector == "":
			o.FieldSelector = asked
		default:
			o.FieldSelector = asked + "," + o.FieldSelector
		}
	}
}

// List is a list of objects of any type.
type List[T any] struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []T
}

// lister is a ListerWatcher with the signatures of a client.
type lister[T any] struct {
	cache.ListerWatcherWithContext
	from cache.ListerWatcher
}

// IsWatchListSemanticsUnSupported recognizes FakeControllerSource, which answers a watch-list with
// an error, by its package, and a ListerWatcher of a package named fake.
func (l lister[T]) IsWatchListSemanticsUnSupported() bool {
	t := reflect.TypeOf(l.from)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == "k8s.io/client-go/tools/cache/testing" || !stream.CanStream(l.from)
}

func (l lister[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(ctx, opts)
}

func (l lister[T]) List(ctx context.Context, opts metav1.ListOptions) (*List[T], error) {
	from, err := l.ListWithContext(ctx, opts)
	if err != nil {
		return nil, err
	}
	if stream.IsNil(from) {
		return nil, errNoList
	}
	access, err := meta.ListAccessor(from)
	if err != nil {
		return nil, fmt.Errorf("ListerWatcher returned a %T: %w", from, err)
	}
	list := &List[T]{ListMeta: metav1.ListMeta{
		ResourceVersion: access.GetResourceVersion(), Continue: access.GetContinue(), RemainingItemCount: access.GetRemainingItemCount(),
	}}
	if list.ResourceVersion == "" && l.IsWatchListSemanticsUnSupported() {
		// Only doubles say that of themselves, such as a zero fake.Clientset. Their watches show everything.
		list.ResourceVersion = "0"
	}
	// Each object gets memory of its own: else one object would keep a whole page in memory.
	var other error
	err = meta.EachListItemWithAlloc(from, func(item runtime.Object) error {
		object, ok := item.(T)
		switch {
		case !ok:
			other = fmt.Errorf("ListerWatcher returned a list with a %T, want a %s", item, reflect.TypeFor[T]())
		case stream.IsNil(object):
			other = fmt.Errorf("ListerWatcher returned a list with a nil %T", item)
		default:
			list.Items = append(list.Items, object)
		}
		return other
	})
	if err != nil && other == nil { // apimachinery's error would print an item
		other = fmt.Errorf("ListerWatcher returned a %T whose items are no objects", from)
	}
	return list, other
}

// Name returns the name of an informer or of a reflector, for logs.
func Name(example any) string {
	if example == nil {
		return "objects"
	}
	if object, ok := example.(runtime.Object); ok && !stream.IsNil(object) {
		if kind := object.GetObjectKind().GroupVersionKind(); kind.Kind != "" {
			return fmt.Sprintf("%s (%T)", kind.GroupKind(), example)
		}
	}
	return fmt.Sprintf("%T", example)
}
