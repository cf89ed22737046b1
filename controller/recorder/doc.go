// Package recorder writes Kubernetes Events, those of the group events.k8s.io, which tell
// people what a controller did to an object. It is client-go's recorder and broadcaster with
// a beginning and an end: a [Recorder] is a member of a manager or of an informer.Group.
//
// These Events have nothing to do with those of package eventqueue.
//
// # Usage
//
//	events := recorder.New(clientset.EventsV1(), "foos")
//	m.Add(events)
//	...
//	events.Eventf(recorder.Reference(foo, fooKind), deployment, corev1.EventTypeNormal, "Created", "CreateDeployment",
//		"Deployment %s has %d replicas", deployment.Name, replicas)
//
// # Guarantees
//
//   - V1. Eventf never waits for the server.
//   - V2. Events that are told before Run has begun are written when it has, a thousand at
//     most. Of those that are told while it runs, client-go drops what is more than a
//     thousand behind.
//   - V3. What is told of one object with the same type, reason and action is one Event, with
//     a count and one of the notes, whatever else has changed about the object.
//   - V4. When ctx ends, what was told before is written, as far as the server takes it in
//     the time of [WithDrainTimeout]; what it refused is not tried again then. Run returns
//     after the last request has ended.
//
// # Concurrency
//
// Everything may be called from any goroutine, but at most one Run at a time.
//
// # Errors
//
// An Event that is there already because an earlier attempt created it, of which the answer
// was lost, is written. What cannot be written goes to the logger: an Event is not worth failing for. Run returns
// [ErrUnwritten] if there was no time for all of them.
package recorder
