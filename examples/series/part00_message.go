package series

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is a message of part 0: a wish that somebody published, such as "three replicas, please".
// T is a pointer such as *corev1.Pod.
type Object interface {
	metav1.Object
}

// Listen is the simplest listener of part 0: it reacts to what is published while it listens, and
// returns when the channel ends. The channel begins with everything that exists. So a listener that
// was away hears of each new object, but never of one that was deleted meanwhile.
//
// Library: controller.Controller.
func Listen[T Object](ctx context.Context, broker ListerWatcher[T], react func(watch.EventType, T)) error {
	channel, err := broker.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer channel.Stop()
	for message := range channel.ResultChan() {
		if object, ok := message.Object.(T); ok {
			react(message.Type, object)
		}
	}
	return nil
}
