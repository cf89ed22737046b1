// Package reflectortest is an in-memory Kubernetes API server with faults.
package reflectortest
