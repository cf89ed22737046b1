// Package recorder writes Kubernetes Events of the group events.k8s.io, which show people what a
// controller did to an object. A [Recorder] is client-go's recorder and broadcaster with a defined
// start and end: it is a member of a manager.
//
// Kubernetes Events are unrelated to the events of package eventqueue.
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
//   - recorder-V1: Eventf never waits for the server.
//   - recorder-V2: The recorder keeps up to a thousand Events from before Run, and writes them when
//     Run begins. While Run runs, client-go drops Events beyond a backlog of a thousand.
//   - recorder-V3: Events of one object with the same related object, type, reason and action become
//     one Event, with a count and one of the notes, whatever else has changed about the objects. All others
//     become Events of their own, even if their times are equal, as in a bubble of testing/synctest: client-go
//     names an Event by its object and its time, so the recorder adds a hash of the rest. The
//     server's count may be behind: client-go writes it when it is two, every 30 minutes, and after six
//     to twelve minutes without another such Event.
//   - recorder-V4: When ctx ends, the recorder writes the remaining Events, as far as the server
//     accepts them within [WithDrainTimeout], but not the counts of recorder-V3 that are behind. It does
//     not retry an Event that the server refuses then. Run returns after the last request has ended. After a
//     hard stop (controller.ErrStopNow) it writes nothing more.
//   - recorder-V5: No text is too long for the server: reason and action are cut to 128 bytes, and
//     the note to 1,024, with "…" at its end. Run refuses a name of the controller that the server
//     would refuse in each Event. The server also refuses an empty action, so the
//     recorder sends the reason there.
//
// # Concurrency
//
// Every function and method may be called from any goroutine, but at most one Run at a time.
//
// # Errors
//
// If an Event exists already, because an earlier attempt created it and its answer was lost, it
// counts as written. An Event that cannot be written goes to the logger: no Event is worth a
// failure of the program. Run returns [ErrUnwritten] if the drain timeout ended before all Events
// were written. A manager logs that error at Warn.
package recorder
