// Package otel traces informers with OpenTelemetry.
//
//	tracing := otel.New(provider)
//	pods := informer.New(client, tracing.Options("pods")...)
//
// # Spans
//
//	list pods               a list, or the beginning of a watch-list
//	watch pods              a watch, from its beginning to its end
//	handle pods/SUBSCRIBER  one call of a handler, whose context has the span
//
// Their attributes are kubereflector.informer, kubereflector.subscriber,
// kubereflector.event.type, kubereflector.event.origin, kubereflector.objects,
// kubereflector.events and kubereflector.streamed, and the object's k8s.namespace.name,
// k8s.cluster.name and kubereflector.object.name. Failures are recorded, and set the
// span's status. The names of spans have no keys in them.
//
// Spans of lists and watches are made when they have ended, with the time at which they
// began: a watch that runs has none yet.
//
// # Concurrency
//
// Everything may be used from any goroutine.
package otel
