package measure

import (
	"context"
	"fmt"
)

// Running is a contender that runs until it is closed.
type Running struct {
	stop  context.CancelFunc
	ended chan error
}

// Start begins to run a contender.
func Start(run func(context.Context) error) *Running {
	ctx, stop := context.WithCancel(context.Background())
	r := &Running{stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- run(ctx) }()
	return r
}

// Wait returns what the channel gets. It returns an error if the contender ends before.
func Wait[T any](r *Running, reached <-chan T) (at T, err error) {
	select {
	case at = <-reached:
		return at, nil
	case err := <-r.ended:
		r.ended <- err
		return at, fmt.Errorf("contender ended too early: %w", err)
	}
}

// Close stops the contender and waits for its end.
func (r *Running) Close() error {
	r.stop()
	return <-r.ended
}
