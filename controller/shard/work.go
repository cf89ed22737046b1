package shard

import (
	"context"
	"errors"
)

// Runner is something that runs until ctx ends, such as an informer, an informer.Group, a
// controller.Reconciler or a controller.Controller.
type Runner interface {
	Run(ctx context.Context) error
}

// Work is what there is to do for one shard, made for one [Hold].
type Work struct {
	// Caches are what the rest reads, such as an informer of the objects of the shard, or
	// an informer.Group. They end after it. Nil is for none.
	Caches Runner
	// Led is the rest, such as a controller.Reconciler.
	Led Runner
}

// ErrNoWork means that a function made a [Work] in which there is nothing to run.
var ErrNoWork = errors.New("nothing to run for a shard: set Work.Led")

// Working returns a [Hold] that runs what a function makes for the shard, and is gone
// when it was given up. What a reconciler leaves undone, which it returns as an
// *eventqueue.DrainError, is for the next holder, who reconciles every key of the
// shard: give it a short drain timeout.
//
// Their context has the shard: see [From].
func Working(make func(ctx context.Context, s Shard) (Work, error)) Hold {
	return func(ctx context.Context, s Shard) error {
		work, err := make(ctx, s)
		if err != nil {
			return err
		}
		if work.Led == nil {
			return ErrNoWork
		}
		return work.run(ctx)
	}
}

// run runs the work until ctx ends or a part of it does.
func (w Work) run(ctx context.Context) error {
	leading, stop := context.WithCancel(ctx)
	defer stop()
	reading, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var read chan error
	if w.Caches != nil {
		read = make(chan error, 1)
		go func() {
			defer close(read) // also if Goexit ends it
			defer stop()      // without caches the rest cannot go on
			read <- w.Caches.Run(reading)
		}()
	}
	err := w.Led.Run(leading)
	end()
	if read != nil {
		err = errors.Join(err, <-read)
	}
	return err
}
