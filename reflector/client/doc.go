// Package client has clients that decode the API server's answers straight into Go types, and
// adapters for the clients of client-go.
//
// [For] makes the client of a type. Built-in types need nothing else; a struct of your own needs
// its kind. T needs only metadata and JSON tags:
//
//	pods, err := client.For[*corev1.Pod](config)
//	telescopes, err := client.For[*Telescope](config, client.WithKind(telescopeKind))
//	r := reflector.New(telescopes.In("default"), store.New(store.ObjectKey[*Telescope]))
//
// [For] finds the resource of the kind by discovery. [ForResource] takes the resource instead.
// [ForType] takes an interface as T, and an example object whose type it decodes into; factories
// use it. [FromRESTClient] takes the REST client of a generated clientset, and [FromTypedClient]
// one of its typed clients. [Dynamic], [Metadata] and [ListWatch] adapt client-go's other clients.
//
// # Writing
//
// A [Resource] also writes, with the signatures of generated clients: Create, Update, UpdateStatus,
// Patch, Apply and Delete. An object goes to its own namespace; a name needs [Resource.In]:
//
//	made, err := telescopes.Create(ctx, telescope, metav1.CreateOptions{})
//	made, err = telescopes.Apply(ctx, want, metav1.ApplyOptions{FieldManager: "dome", Force: true})
//	err = telescopes.In("default").Delete(ctx, "hale", metav1.DeleteOptions{})
//
// The Resource adds the kind to each object that it sends. It refuses an object of another kind or
// namespace with [ErrOtherObject], before any request. Package controller/write makes patches of a
// difference, finalizers and owners with these methods.
//
// The Resource sends a write once. apierrors.SuggestsClientDelay says whether and when the server
// wants it to be tried again. A reconciler does so with its back-off. If the server accepted a
// write, or may have, and its answer is unreadable, the error says so.
//
// # Guarantees
//
//   - client-C1: If a CustomResourceDefinition is deleted and created with another scope, another
//     plural, or another kind for the same plural, requests soon go to the new resource. The client
//     asks discovery again before it refuses a request because of the scope, after answers of another
//     kind, and after a 404. It does so at most once in ten seconds, and keeps what it knows
//     while discovery fails.
//   - client-C2: While the server does not serve a kind, the client asks discovery again after a
//     second at first, later after a quarter of the time since the first question, and at most once
//     in ten seconds. A reflector that waits for its first list pauses no longer than it has waited
//     already. So a definition that is installed three seconds after the start is found in seconds.
//
// # Errors
//
// Errors of requests name the resource and the key, have at most 1 KiB, and quote no value of an
// object, unless the server's reason for a refusal does. The cause that errors.Unwrap returns may quote
// one. apierrors.IsNotFound, IsConflict and similar functions recognize errors of requests.
//
// # Reading
//
// Every client works with reflectors and informers. The guarantees of package reflector say what
// a [Resource] adds: it decodes objects one by one while they arrive, skips objects that the store
// holds, bounds what it reads, and reports each object that it cannot decode.
package client
