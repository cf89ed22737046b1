package ownwrites

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Key is the context key of a [Recorder].
type Key struct{}

// Recorder records the writes of one call of a reconcile function.
type Recorder interface{ Record(Write) }

// Write is a write that the server accepted.
type Write struct {
	// Object is the object as the server returned it, or the last known state of a deleted one.
	Object  metav1.Object
	Deleted bool

	// Created is true if the server had no such object before the write. Replaced is the resource
	// version without which the server would have refused the write. Both are zero if the client
	// does not know which state the write replaced: it may be another writer's, and the returned
	// object, too, if the write changed nothing.
	Created  bool
	Replaced string
}

// Report reports a write to the recorder of a context. It does nothing without one.
func Report(ctx context.Context, write Write) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Record(write)
	}
}

// Wanted reports whether a context has a recorder.
func Wanted(ctx context.Context) bool {
	_, ok := ctx.Value(Key{}).(Recorder)
	return ok
}
