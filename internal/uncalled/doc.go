// Package uncalled holds the argument of an option that only packages of this repository use: see
// reconcile.OnUncalled.
package uncalled
