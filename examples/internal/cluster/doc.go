// Package cluster connects the examples to an API server: to a real one if the
// flag -kubeconfig or the environment variable KUBECONFIG names a file, and else to
// one that lives in memory and holds nothing at first.
package cluster
