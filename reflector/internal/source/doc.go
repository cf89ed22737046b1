// Package source is the one interface through which a reflector reads a client.
//
// [Of] returns the [Source] of a client. A client that decodes objects itself, replays a recording
// or shares its watches provides a Source of its own. Every other client gets an adapter. A Source
// lists pages and opens watches. A watch is a [Stream], from which the reflector pulls batches of
// events.
//
// Clients of other packages provide a Source with the method
//
//	func (c *Client[T]) Source(self any) source.Source[T]
//
// which returns nil if self is another value than the client: a type that embeds the client may
// override its methods, and the reflector must then call these.
package source
