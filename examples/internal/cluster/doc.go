// Package cluster connects the examples to an API server: to the one that the flag
// -kubeconfig names, and otherwise to one in memory that is empty at first.
package cluster
