// Package client has clients that decode the API server's answers straight into Go types, and
// adapters for the clients of client-go.
//
// [ForResource] makes a client of one resource. T needs only metadata and JSON tags:
//
//	telescopes, err := client.ForResource[*Telescope](config, gvr, "default")
//	r := reflector.New(telescopes, store.New(store.ObjectKey[*Telescope]))
//
// [ForKind] finds the resource of a kind by discovery. [ForREST] takes the REST client of a
// generated clientset, and [ForClient] one of its typed clients. [Dynamic], [Metadata] and
// [ListWatch] adapt client-go's other clients. [ForShards] lets the reflectors of several shards
// share one watch.
//
// Every client works with reflectors and informers. The guarantees of package reflector say what
// a [Resource] adds: it decodes objects one by one while they arrive, skips objects that the store
// holds, bounds what it reads, and reports each object that it cannot decode.
package client
