package shard

import (
	"context"
	"errors"
)

// Runner runs until ctx ends, such as an informer, a manager.Manager, a reconcile.Reconciler or a
// controller.Controller.
type Runner interface {
	Run(ctx context.Context) error
}

// Work is the work of one shard, made for one [RunFunc].
type Work struct {
	// Caches are the caches that Led reads, such as an informer of the shard's objects, or an
	// manager.Manager. They end after Led. Nil means none.
	Caches Runner
	// Led is the rest of the work, such as a reconcile.Reconciler.
	Led Runner
}

// ErrNoWork means that a [Work] has no Led.
var ErrNoWork = errors.New("nothing to run for a shard: set Work.Led")

// Working returns a [RunFunc] that calls make for its shard and runs the result until the shard is
// given up. A reconciler may return its remaining keys as an *eventqueue.DrainError. The next
// holder reconciles every key of the shard anyway: give the reconciler a short drain timeout.
//
// The context of the work has the shard: see [FromContext].
func Working(make func(ctx context.Context, s Shard) (Work, error)) RunFunc {
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

// run runs the work until ctx or a part of the work ends.
func (w Work) run(ctx context.Context) error {
	leading, stop := context.WithCancel(ctx)
	defer stop()
	reading, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var read chan error
	if w.Caches != nil {
		read = make(chan error, 1)
		go func() {
			defer close(read) // also after Goexit
			defer stop()      // Led cannot continue without its caches
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
