// Package term lets a leader election tell the reconcilers that it runs when its term began. The
// packages leader and reconcile know only the context.
package term
