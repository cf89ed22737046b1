// Package otel traces informers with OpenTelemetry.
//
//	tracing := otel.New(provider)
//	pods := informer.New(client, tracing.Options("pods")...)
//	otel.Add(tracing, pods, 100) // one change in a hundred is followed to its end
//
// Each call of a handler has a span, which is for the provider's sampler to take or to drop. Where that costs too
// much, [WithChosenOnly] makes spans of those calls alone that the changes which Add chose lead to.
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
// What follows from a change that [Add] chooses is one trace:
//
//	commit pods
//	├─ queue pods/painter
//	└─ handle pods/painter
//	   ├─ queue painter
//	   └─ reconcile painter
//
// The last two are there if the handler is that of a reconciler made with
// [Tracing.ReconcilerOptions]. Where several events made one call, the others are links of
// its span; so is the span that the context of Run may have.
//
// Their attributes are kubereflector.informer, kubereflector.subscriber,
// kubereflector.reconciler, kubereflector.event.type, kubereflector.event.origin,
// kubereflector.resource_version, kubereflector.objects, kubereflector.events,
// kubereflector.streamed, kubereflector.attempt, kubereflector.priority and
// kubereflector.requeue_after, and the object's k8s.namespace.name, k8s.cluster.name and
// kubereflector.object.name. Failures are recorded, and set the span's status. The names of
// spans have no keys in them. What is said of an object is set when a span has begun, and only
// if it is recorded: a sampler sees the names of informer, subscriber and reconciler alone.
//
// Spans of lists and watches are made when they have ended, with the time at which they
// began: a watch that runs has none yet.
//
// # Concurrency
//
// Everything may be used from any goroutine.
package otel
