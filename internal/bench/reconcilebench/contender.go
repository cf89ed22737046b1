package reconcilebench

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
)

// contender is a reconciler of applications with a cache of them.
type contender interface {
	// run reconciles until ctx ends.
	run(ctx context.Context, workers int, w *work) error
}

// builder makes a contender for a server.
type builder func(config *rest.Config) (contender, error)

// contenders are all of them, by the names of sides.
var contenders = map[string]builder{"ours": newOurs, "peer": newPeer}

// running is a contender that runs, with its work.
type running struct {
	*work
	stop  context.CancelFunc
	ended chan error
}

// start runs a contender, from which a number of reconciliations is expected.
func start(c contender, workers, expected int) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{work: newWork(), stop: cancel, ended: make(chan error, 1)}
	r.expect(expected)
	go func() { r.ended <- c.run(ctx, workers, r.work) }()
	return r
}

// wait waits until as many reconciliations as were expected have been made, or the contender has failed.
func (r *running) wait() error {
	select {
	case <-r.reached:
		return nil
	case err := <-r.ended:
		r.ended <- err
		return fmt.Errorf("it ended, and %d reconciliations are missing: %w", r.left.Load(), err)
	}
}

// close stops the contender, and waits for its end.
func (r *running) close() error {
	r.stop()
	return <-r.ended
}
