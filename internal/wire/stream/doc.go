// Package stream is between a client and a reflector. A [Source] lists pages and opens watches, and
// delivers both as [Item] values: one for each change, or for many objects that did not change or are not
// wanted. A client that decodes objects itself has a
// [Reader]; package reflector adapts every other client.
//
// A Reader reads the responses for one resource. It decodes objects one by one while the bytes
// arrive, on several goroutines if one cannot keep up, and keeps their order. It skips objects that
// the caller already holds and objects outside the caller's shards: see [Wants]. It reports each
// object that it cannot decode, with its key, and goes on with the others.
//
// The data flows through these types:
//
//	Response   the body, its format, and the request for errors
//	pipeline   distributes frames to decoders and keeps the order of their results
//	decoder    decodes an object that the caller does not hold, and checks its kind and namespace
//	Item       what the object means for the store
//	Watch      delivers the items of a watch; list those of a page
//
// The package sends no requests, and knows no reflector and no protocol.
//
// # Code
//
// Read item.go and source.go first, then watch.go, which has the way of an event, and list.go.
package stream
