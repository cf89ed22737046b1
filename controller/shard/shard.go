package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Shard is one of several equal parts of some work: part Index of Of. The user of the package
// decides which objects belong to a shard, for example by a range of hashes.
type Shard struct {
	// Index is from 0 to Of-1.
	Index int
	// Of is the number of shards.
	Of int
	// Generation counts how often the shard was taken. Of two holders of a shard, the later one has the
	// higher term.
	Generation int
}

// String returns index and number of shards, such as "3/16", without the term.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }

// RunFunc does the work of a shard. The member calls it on its own goroutine after it took the
// shard. ctx ends when the member gives up the shard. Without controller.HardStopContext, the shard
// moves to another member, and RunFunc may finish its current work. With
// controller.HardStopContext, all work must end at once. The first may turn into the second: see
// controller.HardStopped. No other member has the shard before RunFunc has returned, unless the
// lease was lost: see the package documentation.
//
// An error after the end of ctx is logged. If RunFunc returns before, the member gives up all its
// shards, and Run returns the error. A panic in RunFunc ends the process, as in any goroutine, and
// other members take its shards when its lease expires. Reconcilers and controllers recover panics
// of their functions.
type RunFunc func(ctx context.Context, s Shard) error

var (
	// ErrNotHeld means that a shard is not held any more, or not certainly.
	ErrNotHeld = errors.New("shard is not held")

	// ErrReturned means that a [RunFunc] returned nil while its member still held the shard.
	ErrReturned = errors.New("work of a shard has ended by itself")
)

type heldKey struct{}

// held is one call of a RunFunc. Any goroutine may use it.
type held struct {
	shard  Shard
	keeper *keeper
	over   atomic.Bool // the call has returned
}

// valid returns an error unless the shard is certainly held.
func (h *held) valid() error {
	if h.over.Load() {
		return fmt.Errorf("%w: the work of %s has ended", ErrNotHeld, h.shard)
	}
	if err := h.keeper.valid(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotHeld, h.shard, err)
	}
	return nil
}

// FromContext returns the shard of a context, for example in a call of a reconcile function. It returns
// false if ctx does not come from a [RunFunc].
func FromContext(ctx context.Context) (Shard, bool) {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return Shard{}, false
	}
	return h.shard, true
}

// CheckHeld returns nil if the shard of ctx is certainly held at this moment, and otherwise an error
// that wraps [ErrNotHeld]. It compares the clock, and so detects a paused process before any timer
// does. Call it immediately before a write that must not happen twice.
func CheckHeld(ctx context.Context) error {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return fmt.Errorf("%w: the context is not that of one", ErrNotHeld)
	}
	return h.valid()
}
