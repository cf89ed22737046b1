// Package cluster connects the examples to an API server. The flag -kubeconfig names one; the default
// is an empty one in memory. The package also runs an example beside its demo.
package cluster
