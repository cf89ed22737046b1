// Package moving is one controller twice: for controller-runtime, and for this library.
// docs/from-controller-runtime.md shows parts of both. A test checks on the API server in memory
// that both do the same.
//
// A site is a ConfigMap with the label site=yes, and names a number of replicas. The controller
// keeps a Deployment with this number for the site. A finalizer makes the controller report each
// deleted site to another system.
package moving
