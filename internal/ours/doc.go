// Package ours holds the argument of what only packages of this repository call: see
// store.Cache.WriteUnannounced, informer.Informer.CacheReady and reconcile.OnUncalled.
package ours

// Only is for code of this repository. Without the field, struct{}{} would be assignable to it.
type Only struct{ _ [0]byte }
