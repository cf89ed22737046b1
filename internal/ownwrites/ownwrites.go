package ownwrites

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Key is the context key of a [Recorder].
type Key struct{}

// Recorder records the writes of one call of a reconcile function.
type Recorder interface {
	// Record records an object as the server returned it, or the last known state of a deleted one.
	Record(object metav1.Object, deleted bool)
}

// Report reports a write to the recorder of a context. It does nothing without one.
func Report(ctx context.Context, object metav1.Object, deleted bool) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Record(object, deleted)
	}
}
