package series

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is a message of part 0: a wish, with a name. T is *corev1.Pod, or any other such pointer.
type Object interface {
	comparable
	metav1.Object
}

// Listen is the simplest listener of part 0: it hears what is published while it listens, and
// returns when the channel ends. It does not know what happened before.
func Listen[T Object](ctx context.Context, broker ListerWatcher[T], react func(watch.EventType, T)) error {
	channel, err := broker.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer channel.Stop()
	for message := range channel.ResultChan() {
		if object, ok := message.Object.(any).(T); ok {
			react(message.Type, object)
		}
	}
	return nil
}
