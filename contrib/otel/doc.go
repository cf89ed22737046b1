// Package otel traces informers with OpenTelemetry.
//
//	tracing := otel.New(provider)
//	pods := informer.New(client, tracing.Options("pods")...)
//	otel.Add(tracing, pods, 100) // one change in a hundred is followed to its end
//
// Each call of a handler has a span, and the provider's sampler keeps or drops it. If that costs
// too much, use [WithChosenOnly]: it makes handler spans only for the changes that Add chose.
//
// # Spans
//
//	list pods               a list, or the beginning of a watch-list
//	watch pods              a watch, from its beginning to its end
//	handle pods/SUBSCRIBER  one call of a handler, whose context has the span
//	reconcile RECONCILER    one call of a reconcile function, whose context has the span
//	commit pods             a change of the cache, if it was chosen: see [Add]
//	queue pods/SUBSCRIBER   from a chosen change to the first call of a handler for it
//	queue RECONCILER        from the first event that had a key reconciled to the call
//
// The spans of a change that [Add] chooses form one trace:
//
//	commit pods
//	├─ queue pods/painter
//	└─ handle pods/painter
//	   ├─ queue painter
//	   └─ reconcile painter
//
// The last two exist if the handler belongs to a reconciler made with [Tracing.ReconcilerOptions].
// If several events caused one call, its span has links to the other events. It also has a link to
// the span in the context of Run, if there is one.
//
// Their attributes are kubereflector.informer, kubereflector.subscriber, kubereflector.reconciler,
// kubereflector.event.type, kubereflector.event.origin, kubereflector.resource_version,
// kubereflector.objects, kubereflector.events, kubereflector.streamed, kubereflector.attempt,
// kubereflector.requeue_after, and the object's k8s.namespace.name,
// k8s.cluster.name and kubereflector.object.name. A failure is recorded and sets the span's status.
// The names of spans contain no keys. The attributes of an object are set after a span has begun,
// and only if it is recorded. A sampler sees only the names of informer, subscriber and reconciler.
//
// Spans of lists and watches are created when the list or watch has ended, with its start time. A
// running watch has no span yet.
//
// # Concurrency
//
// Every function and method may be called from any goroutine.
package otel
