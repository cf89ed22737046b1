// Package conformance runs the tables of reflectortest's conformance against a real kube-apiserver: they are what makes the in-memory server one that
// a test may believe. It has no code of its own.
package conformance
