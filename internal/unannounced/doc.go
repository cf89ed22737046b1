// Package unannounced holds the argument of a method that only packages of this repository call: see
// store.Cache.WriteUnannounced.
package unannounced

// Writer is code that may write to a cache beside its reflector.
type Writer struct{}
