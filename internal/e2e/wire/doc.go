// Package wire tests that what a reflector decodes straight from the bytes of a real API server is what client-go's own clients read there, field by
// field: custom resources in JSON, and pods and ConfigMaps in protobuf. It has no code of its own.
//
// There is one server and one scenario, in which all mirrors take part at once: one for each resource, way of decoding it and way to get the first
// state. The scenario restarts the server and makes it forget the past, so it is not in the package whose tests want one in good health.
package wire
