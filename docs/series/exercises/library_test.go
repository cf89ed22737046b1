package exercises

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// library is an informer and a collection of the library. What fails is retried after an hour.
type library struct {
	*informer.Informer[*corev1.ConfigMap]
	*eventqueue.Collection[*corev1.ConfigMap]
}

func onLibrary(client typedcorev1.ConfigMapInterface) subject {
	return &library{informer.New(client), eventqueue.New(store.ObjectKey[*corev1.ConfigMap])}
}

func (l *library) handle(handler func(event) error) {
	l.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
		return handler(show(e))
	}), informer.WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour)))
}

func (l *library) known() (names []string) {
	for key := range l.Informer.Cache().All() {
		names = append(names, key.Name)
	}
	return names
}

func (l *library) run(ctx context.Context) error {
	defer l.Collection.Close()
	return l.Informer.Run(ctx)
}

func (l *library) add(name, text string)    { must(l.Add(configMap(name, text))) }
func (l *library) change(name, text string) { must(l.Update(configMap(name, text))) }
func (l *library) remove(name string)       { must(l.Delete(configMap(name, "one"))) }
func (l *library) resync()                  { l.Resync() }

func (l *library) take(consumer func(event)) (finish func()) {
	if l.Len() == 0 {
		return nil
	}
	queue, err := l.Take(context.Background())
	must(err)
	return func() {
		for e := range queue.Events() {
			consumer(show(e))
		}
		queue.Done()
	}
}

func show(e eventqueue.Event[*corev1.ConfigMap]) event {
	shown := event{verb: e.Type.String(), name: e.Key.Name, prior: "none", now: e.Object.Data["text"]}
	if e.PriorKnown {
		shown.prior = e.Prior.Data["text"]
	}
	switch {
	case e.Origin == eventqueue.Resync:
		shown.remark = " (resync)"
	case e.Initial:
		shown.remark = " (initial)"
	case e.Type == eventqueue.Deletion && !e.FinalStateKnown:
		shown.remark = " (final state unknown)"
	}
	return shown
}
