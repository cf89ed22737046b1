package informer

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// limitPeriod is how often the memory of a subscriber with a limit is estimated.
const limitPeriod = time.Second

// WithQueueLimit ends a subscription whose queue takes about more bytes than a limit,
// beyond what the cache takes: see [Subscription.Bytes]. Everybody else is better off
// without a subscriber that keeps all states and does not come after. It is ended as by
// [Subscription.Close], for good, and loudly: the logger and the error hook are told a
// [*QueueLimitError], and [Subscription.Err] returns it from then on. No event is left out
// before that, and none is told after it.
//
// The memory is estimated once a second while Run runs. The default, and what is not
// positive, is no limit. Under KeepLatest, the default, a queue keeps no more
// than the states of objects that were told last, which is a bound that needs no end.
func WithQueueLimit(bytes int64) SubscriptionOption {
	return subscriptionOptionFunc(func(o *subscriptionOptions) { o.limit = max(bytes, 0) })
}

// QueueLimitError says that a subscription was ended because of [WithQueueLimit].
type QueueLimitError struct {
	// Informer and Subscription are names: see [WithName].
	Informer, Subscription string
	// Bytes is about how much the queue took, of Limit that were allowed.
	Bytes, Limit int64
	// Objects is the number of objects of which something was queued.
	Objects int
}

// Error says everything, and what to do.
func (e *QueueLimitError) Error() string {
	return fmt.Sprintf("subscriber %s of %s was ended: its queue of %d object(s) took about %d bytes beyond the cache, of %d that are allowed; "+
		"make its handler quicker, or keep less by WithCompaction(eventqueue.KeepLatest)", e.Subscription, e.Informer, e.Objects, e.Bytes, e.Limit)
}

// Bytes estimates how much memory the subscriber's queue takes beyond what the cache does:
// its events, and those of their objects that the cache does not hold any more. It looks at
// all events: see [eventqueue.Collection.Bytes].
func (s *Subscription[T]) Bytes() int64 { return s.queues.Bytes(nil) }

// Err returns why the subscription was ended by the informer, a [*QueueLimitError], and nil
// as long as it was not.
func (s *Subscription[T]) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// limits ends the subscription when it takes too much, until ctx ends or it is closed.
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

// shed ends the subscription, and tells.
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
