package informer

import (
	"context"
	"time"
)

// resyncs queues every object for the subscriber once in each period, until ctx ends or the
// subscription is closed. This is the only resync. A relist is the reflector's, and sends only
// changes.
func (s *Subscription[T]) resyncs(ctx context.Context) {
	// A ticker drops ticks while the loop is busy, so periods do not pile up.
	ticker := time.NewTicker(s.resync)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.queues.Resync()
		case <-s.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}
