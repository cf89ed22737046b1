// Package clientgo holds the tests of the bridge to client-go against a real kube-apiserver: a controller that is written for client-go's shared informers
// and generated listers, and one of controller-runtime's, run on informers of this library.
package clientgo
