package informer

import (
	"context"
	"time"
)

// resyncs hands the subscriber everything once more in each period, until ctx ends or
// the subscription is closed. Nothing else resyncs; a relist is the reflector's, and
// tells of changes alone.
func (s *Subscription[T]) resyncs(ctx context.Context) {
	// A ticker drops what comes while a tick is dealt with: periods do not pile up.
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
