package eventqueue

import "time"

// Option configures a [Collection].
type Option interface{ apply(*options) }

type options struct {
	compaction Compaction
	backoff    backoff
	priority   bool
	observer   func(TakeInfo) // nil if there is none
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func newOptions(opts []Option) options {
	o := options{compaction: KeepLatest, priority: true, backoff: backoff{base: 100 * time.Millisecond, limit: time.Minute}}
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

// WithPriority sets whether objects with live events come before objects that have only events of
// the first list or of a resync, which come in thousands. One queue in eight still belongs to the
// second group, so that it does not starve. The events of one object keep their order in any case.
// The default is yes.
func WithPriority(on bool) Option {
	return optionFunc(func(o *options) { o.priority = on })
}
