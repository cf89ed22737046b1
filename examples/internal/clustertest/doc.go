// Package clustertest runs examples in tests.
package clustertest
