// Package e2e holds the tests of the library against a real kube-apiserver. It has no code of its own: package apiserver runs the server, package
// binaries builds it. Tests that need a server to themselves are in packages of their own: protocol does it harm, conformance compares it with the
// in-memory one, wire restarts it under many objects, reconcile has processes with controllers killed, and hundreds of objects converge. Package
// network puts a faulty network in front of it. Package upstream runs the suites of controller-runtime and client-go on informers of this library.
package e2e
