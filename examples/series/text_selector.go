package series

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// Select filters the stream of messages: it is the last argument of NewListWatchFromClient. The
// server compares fields for equality only, and knows few of them: name and namespace of every kind,
// and of a Pod, for example, its node and its phase.
//
// Library: reflector.WithFieldSelector.
func Select[T Object](source ListerWatcher[T], selector fields.Selector) ListerWatcher[T] {
	return selected[T]{source, selector.String()}
}

type selected[T Object] struct {
	ListerWatcher[T]
	selector string
}

func (s selected[T]) List(ctx context.Context, options metav1.ListOptions) ([]T, string, error) {
	options.FieldSelector = s.selector
	return s.ListerWatcher.List(ctx, options)
}

func (s selected[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = s.selector
	return s.ListerWatcher.Watch(ctx, options)
}
