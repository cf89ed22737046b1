// Package e2e holds the tests of the library on a real kube-apiserver. It has no code of its own.
// Package apiserver runs the server, and package binaries builds it.
//
// Each folder is one test program with its own servers, because a program that links client-go under
// the race detector takes seconds to build, and a server seconds to start. Add a test to the folder
// of its subject, and a folder only for a server that other tests must not share. Package protocol
// kills the server, conformance compares it with the one in memory, and wire restarts it under many
// objects. Package network puts a faulty network before the server, shards servers with and without
// shard selectors, persist one with an audit log, reconcile processes with controllers, and faults two
// servers over one etcd. Package upstream runs the suites of controller-runtime, client-go and
// Kubernetes on informers of this library.
package e2e
