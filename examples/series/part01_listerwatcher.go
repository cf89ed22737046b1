package series

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// ListerWatcher sends the two requests of part 1. List also returns the version to watch from.
// Library: reflector.Client.
type ListerWatcher[T Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (objects []T, version string, err error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Client is any generated client, such as clientset.CoreV1().Pods("default").
type Client[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

type listWatch[T Object, L runtime.Object] struct{ Client[L] }

// FromClient is NewListWatchFromClient: FromClient[*corev1.Pod](clientset.CoreV1().Pods("")).
func FromClient[T Object, L runtime.Object](client Client[L]) ListerWatcher[T] {
	return listWatch[T, L]{client}
}

func (lw listWatch[T, L]) List(ctx context.Context, options metav1.ListOptions) ([]T, string, error) {
	list, err := lw.Client.List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	var objects []T
	err = meta.EachListItem(list, func(item runtime.Object) error {
		objects = append(objects, item.(any).(T))
		return nil
	})
	accessor, _ := meta.ListAccessor(list)
	return objects, accessor.GetResourceVersion(), err
}
