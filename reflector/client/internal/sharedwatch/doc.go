// Package sharedwatch lets the reflectors of several shards read one watch.
//
// A [Multiplexer] opens watches for its members. Members with the same selectors share a watch of
// all objects, and each of them reads the events of its shards. The package does not decode
// objects: an [Upstream] delivers the frames of a response, or the events of a client.
package sharedwatch
