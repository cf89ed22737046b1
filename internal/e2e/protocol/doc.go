// Package protocol tests that a reflector keeps its store equal to a real API server whatever happens to that server, and with as few full lists as
// possible. It has no code of its own.
//
// A scenario is a test. It runs once a mode, which is a way to get the first state, and ends with two checks: the store holds what the server lists,
// object by object, and the transport of the reflector's client has seen so many full lists and no more. A full list is a list with all its pages, or
// a watch that begins with the state; one that the server cut off counts too.
//
// The scenarios do harm to the server that they share, so they are not parallel, and not in the package whose tests want one in good health.
package protocol
