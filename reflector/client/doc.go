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
// [ForType] decodes into the type of an example, where T is an interface, for factories.
// [FromRESTClient] takes the REST client of a generated clientset, and [FromTypedClient] one of its
// typed clients. [Dynamic], [Metadata] and [ListWatch] adapt client-go's other clients. [SharedWatch]
// lets the reflectors of several shards share one watch.
//
// Every client works with reflectors and informers. The guarantees of package reflector say what
// a [Resource] adds: it decodes objects one by one while they arrive, skips objects that the store
// holds, bounds what it reads, and reports each object that it cannot decode.
package client
