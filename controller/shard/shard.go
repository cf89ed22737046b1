package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Shard is one of several equal parts of some work: part Index of Of. Which part of which
// objects that is, is up to those who do the work, such as a range of hashes.
type Shard struct {
	// Index is from 0 to Of-1.
	Index int
	// Of is how many shards there are.
	Of int
	// Term counts the times that the shard was taken. Of two holders of a shard the one
	// with the higher term came later.
	Term int
}

// String says which shard it is, as "3/16"; the term is not in it.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }

// Hold does the work of a shard while it is held. It is called in a goroutine of its own
// when the shard was taken, and ctx ends when it is to be given up: without haste to hand
// it over, so that Hold may finish what it has begun, or by controller.WithHalt, when
// nothing may go on; see controller.Halted for one that turns into the other. Nobody else
// has the shard before Hold has returned, unless the lease was lost: see the package
// documentation.
//
// What it returns when ctx has ended is logged. If it returns before, the member gives up
// all its shards, and Run returns the error. A panic in it ends the process, as in any
// goroutine, and others have its shards when its lease is over; reconcilers and
// controllers catch those of their functions.
type Hold func(ctx context.Context, s Shard) error

var (
	// ErrNotHeld means that a shard is not held any more, or not for certain.
	ErrNotHeld = errors.New("shard is not held")

	// ErrReturned means that a [Hold] returned nil although its shard was held.
	ErrReturned = errors.New("work of a shard has ended by itself")
)

type heldKey struct{}

// held is one call of a Hold. All of it is for any goroutine.
type held struct {
	shard  Shard
	keeper *keeper
	over   atomic.Bool // the call has returned
}

// valid returns an error unless the shard is held for certain.
func (h *held) valid() error {
	if h.over.Load() {
		return fmt.Errorf("%w: the work of %s has ended", ErrNotHeld, h.shard)
	}
	if err := h.keeper.valid(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotHeld, h.shard, err)
	}
	return nil
}

// From returns the shard for which something is done, such as a call of a reconcile
// function, and whether ctx comes from a [Hold] at all.
func From(ctx context.Context) (Shard, bool) {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return Shard{}, false
	}
	return h.shard, true
}

// Valid returns nil if the shard of ctx is held for certain at this moment, and else an
// error that is an [ErrNotHeld]. It looks at the clock, and so sees that a process has
// slept for too long before anything else tells it: call it immediately before a write
// that must not be made twice.
func Valid(ctx context.Context) error {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return fmt.Errorf("%w: the context is not that of one", ErrNotHeld)
	}
	return h.valid()
}
