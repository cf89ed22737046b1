package informer

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// limitPeriod is how often the memory of a subscriber with a limit is estimated.
const limitPeriod = time.Second

// WithQueueLimit ends a subscription if its queue takes about more bytes than a limit, beyond the
// memory of the cache: see [Subscription.Bytes]. It protects the program from a subscriber that
// keeps all states and falls behind. The informer closes the subscription for good, as
// [Subscription.Close] does. The logger and the error hook get a [*QueueLimitError], and
// [Subscription.Err] returns it from then on. The subscriber misses no event before the end, and
// gets none after it.
//
// The informer estimates the memory once a second while Run runs. The default is no limit; values
// below 1 mean the same. Under KeepLatest, the default compaction, a queue keeps only the last
// delivered state of each object. That is a bound by itself.
func WithQueueLimit(bytes int64) SubscriptionOption {
	return subscriptionOptionFunc(func(o *subscriptionOptions) { o.limit = max(bytes, 0) })
}

// QueueLimitError says that a subscription was ended because of [WithQueueLimit].
type QueueLimitError struct {
	// Informer and Subscription are names: see [WithName].
	Informer, Subscription string
	// Bytes is the approximate size of the queue. Limit is the allowed size.
	Bytes, Limit int64
	// Objects is the number of objects with queued events.
	Objects int
}

// Error names the subscriber, the numbers, and a remedy.
func (e *QueueLimitError) Error() string {
	return fmt.Sprintf("subscriber %s of %s was ended: its queue of %d object(s) took about %d bytes beyond the cache, of %d that are allowed; "+
		"make its handler quicker, or keep less by WithCompaction(eventqueue.KeepLatest)", e.Subscription, e.Informer, e.Objects, e.Bytes, e.Limit)
}

// Bytes estimates the memory of the subscriber's queue beyond the memory of the cache: its events,
// and those objects of the events that the cache no longer holds. It looks at all events: see
// [eventqueue.Collection.Bytes].
func (s *Subscription[T]) Bytes() int64 { return s.queues.Bytes(nil) }

// Err returns the [*QueueLimitError] with which the informer ended the subscription, or nil.
func (s *Subscription[T]) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// limits ends the subscription when its queue exceeds the limit. It returns when ctx ends or the
// subscription is closed.
func (s *Subscription[T]) limits(ctx context.Context) {
	ticker := time.NewTicker(limitPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if bytes := s.Bytes(); bytes > s.limit {
				s.shed(ctx, bytes)
				return
			}
		case <-s.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// shed ends the subscription and reports the error.
func (s *Subscription[T]) shed(ctx context.Context, bytes int64) {
	err := &QueueLimitError{Informer: s.of.name, Subscription: s.name, Bytes: bytes, Limit: s.limit, Objects: s.Lag()}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.err = err
	s.mu.Unlock()
	s.Close()
	s.logger.Error("subscriber ended", zap.String("subscriber", s.name), zap.Error(err))
	s.tell(ctx, err)
}
