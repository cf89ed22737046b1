// Package e2e holds the tests of the library against a real kube-apiserver. It has no code of its own: package apiserver runs the server, package
// binaries builds it.
package e2e
