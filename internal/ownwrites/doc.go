// Package ownwrites lets a client report its writes to the reconcile function that it works for, so
// that the next call for the key sees them. The two packages know only the context.
package ownwrites
