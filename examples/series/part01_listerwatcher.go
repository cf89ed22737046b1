package series

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// ListerWatcher sends the two requests of part 1. A watch alone would begin in the middle of the
// stream, so List also returns the version from which to watch.
//
// Library: reflector.Client.
type ListerWatcher[T Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (objects []T, version string, err error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Client is any generated client, such as clientset.CoreV1().Pods("default"). Nothing here calls
// Get, but its result tells the compiler T, which the results of List and Watch do not.
type Client[T any, L runtime.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// FromClient is NewListWatchFromClient.
func FromClient[T Object, L runtime.Object](client Client[T, L]) ListerWatcher[T] {
	return listWatch[T, L]{client}
}

type listWatch[T Object, L runtime.Object] struct{ Client[T, L] }

func (lw listWatch[T, L]) List(ctx context.Context, options metav1.ListOptions) ([]T, string, error) {
	list, err := lw.Client.List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	metadata, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	var objects []T
	err = meta.EachListItem(list, func(item runtime.Object) error {
		objects = append(objects, item.(T))
		return nil
	})
	return objects, metadata.GetResourceVersion(), err
}
