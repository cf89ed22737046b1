package eventqueue

import "time"

// Option configures a [Collection].
type Option interface{ apply(*options) }

type options struct {
	compaction Compaction
	backoff    backoff
	liveFirst  bool
	observer   func(TakeInfo) // nil if there is none
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{compaction: KeepLatest, backoff: backoff{base: 100 * time.Millisecond, limit: time.Minute}}
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// WithCompaction selects the events that the collection keeps. The default is [KeepLatest].
func WithCompaction(c Compaction) Option {
	return optionFunc(func(o *options) { o.compaction = c })
}

// WithBackoff sets the back-off of failed keys. A key waits about base after the first failure, and
// twice as long after each further one, but never more than limit. The defaults are 100 ms and one
// minute; values that are not positive leave them. Each wait is drawn at random from the upper half
// of that time, so that keys that failed together are not retried together.
func WithBackoff(base, limit time.Duration) Option {
	return optionFunc(func(o *options) {
		if base > 0 {
			o.backoff.base = base
		}
		if limit > 0 {
			o.backoff.limit = limit
		}
	})
}

// WithLiveFirst sets whether objects with live events come before objects that have only initial or
// resync events: see [Collection.LiveFirst]. The default is no.
func WithLiveFirst(on bool) Option {
	return optionFunc(func(o *options) { o.liveFirst = on })
}
