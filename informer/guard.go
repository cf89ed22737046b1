package informer

import (
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store/guard"
)

// WithMutationGuard makes a [guard.Guard] detect code that changes objects of the informer's cache.
// The guard compares the objects of an event before and after each call of a handler and each loop
// body over [Subscription.Consume]. At the end of Run it compares all objects. It reports each
// change as a [*guard.MutationError], only to the reporter. It is for tests, because it encodes
// every object several times:
//
//	pods := informer.New(client, informer.WithMutationGuard(guard.Fail(t)))
//
// The default is nil: no guard, at no cost.
func WithMutationGuard(to *guard.Reporter) Option {
	return optionFunc(func(o *options) { o.guarding = to })
}

// lendToGuard gives the guard the objects of an event that a subscriber works on. The guard compares them
// again when giveBack is called.
func (s *Subscription[T]) lendToGuard(event *eventqueue.Event[T]) (giveBack func()) {
	objects := []T{event.Object}
	if event.PriorKnown {
		objects = append(objects, event.Prior)
	}
	return s.informer.guard.Given(s.name, event.Key, objects...)
}

// guarded wraps the yield function of a loop over events.
func (s *Subscription[T]) guarded(yield func(eventqueue.Event[T]) bool) func(eventqueue.Event[T]) bool {
	if s.informer.guard == nil {
		return yield
	}
	return func(event eventqueue.Event[T]) bool {
		defer s.lendToGuard(&event)()
		return yield(event)
	}
}
