package informer

import (
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store/guard"
)

// WithMutationGuard has a [guard.Guard] find out who changes objects of the informer's
// cache: those of an event are compared before and after each call of a handler and each
// body of a loop over [Subscription.Events], and all of them at the end of Run. Errors, a
// [*guard.MutationError] each, go to the reporter alone. It is for tests, because it encodes
// every object several times:
//
//	pods := informer.New(client, informer.WithMutationGuard(guard.Fail(t)))
//
// The default, and nil, is none, and costs nothing.
func WithMutationGuard(to *guard.Reporter) Option {
	return optionFunc(func(o *options) { o.guarding = to })
}

// watchMutations begins to guard, if that was asked for.
func (i *Informer[T]) watchMutations() {
	if i.guarding != nil {
		i.guard = guard.Watch(i.name, i.cache, i.guarding)
	}
}

// checkMutations reports what was changed until the end of Run.
func (i *Informer[T]) checkMutations() {
	if i.guard != nil {
		i.guard.Report()
	}
}

// given tells the guard that a subscriber has an event in hand, until back is called.
func (s *Subscription[T]) given(event *eventqueue.Event[T]) (back func()) {
	objects := []T{event.Object}
	if event.PriorKnown {
		objects = append(objects, event.Prior)
	}
	return s.of.guard.Given(s.name, event.Key, objects...)
}

// guarded is what a loop over events yields to.
func (s *Subscription[T]) guarded(yield func(eventqueue.Event[T]) bool) func(eventqueue.Event[T]) bool {
	if s.of.guard == nil {
		return yield
	}
	return func(event eventqueue.Event[T]) bool {
		defer s.given(&event)()
		return yield(event)
	}
}
