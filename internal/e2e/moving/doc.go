// Package moving is one controller twice: for controller-runtime, and for this library. docs/from-controller-runtime.md shows parts of both,
// and a test holds both to the same behaviour, on the API server in memory.
//
// A site is a ConfigMap with the label site=yes. The controller keeps a Deployment for it, with as many replicas as it says, and tells somebody outside
// when the site is gone; a finalizer makes sure of that.
package moving
