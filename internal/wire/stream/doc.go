// Package stream turns the responses of an API server into objects: the pages of lists and the
// events of watches.
//
// A [Reader] reads the responses for one resource. It decodes objects one by one while the bytes
// arrive, on several goroutines if one cannot keep up, and keeps their order. It skips objects that
// the caller already holds and objects outside the caller's shards: see [Skip]. It reports each
// object that it cannot decode, with its key, and goes on with the others.
//
// The data flows through these types:
//
//	Response   the body, its format, and the request for errors
//	Frames     the undecoded events of a watch
//	gate       removes the added objects of a watch-list that the caller holds
//	pipeline   distributes frames to decoders and keeps the order of their results
//	decoder    decodes an object, and checks its kind and namespace
//	Page       the result of a list
//	Watch      delivers the events of a watch as [Event] values
//
// The package sends no requests, and knows no store, no reflector and no protocol.
package stream
