// Package wirebench measures the path from the bytes of an API server to a store and a handler: the
// subcommand "wire". It compares this library with client-go's informers, with controller-runtime's
// cache and with the smallest possible program on net/http.
//
// Each contender has a process of its own; the server is in another one. The contender lists and
// watches until its handler knows all objects. Then each object changes once, in no order, and then
// some objects change alone. Then its watch fails, and it lists the unchanged objects again. A
// process measures itself once for all cases.
//
// The server and the client share the machine's processors, so a wall time contains the server's
// copying.
package wirebench
