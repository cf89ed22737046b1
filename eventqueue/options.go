package eventqueue

import "time"

// Option configures a [Collection].
type Option interface{ apply(*options) }

type options struct {
	compaction Compaction
	backoff    backoff
	liveFirst  bool
	observer   Observer // nil for nobody
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

// WithCompaction says which events are kept. The default is [KeepLatest].
func WithCompaction(c Compaction) Option {
	return optionFunc(func(o *options) { o.compaction = c })
}

// WithBackoff sets how long a key that failed waits until it is handed out
// again: about base after the first failure, twice as long after each further
// one, but never more than limit. The defaults are 100 ms and one minute;
// values that are not positive leave them. Each wait is drawn at random from the
// upper half of that time, so that keys that failed together do not come back
// together.
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

// WithLiveFirst says whether objects of which there is news go before those of which
// only initial and resync events wait: see [Collection.LiveFirst]. The default is no.
func WithLiveFirst(on bool) Option {
	return optionFunc(func(o *options) { o.liveFirst = on })
}
