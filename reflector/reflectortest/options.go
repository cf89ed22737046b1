package reflectortest

import "time"

// An Option changes what NewServer and Start make.
type Option interface{ apply(*options) }

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

type options struct {
	port             bool
	history          int
	bookmarkInterval time.Duration
	watchTimeout     time.Duration
	resources        []Resource
}

// OnPort serves on a port of the loopback interface instead of in memory: for
// curl, for other processes. Such a server does not work inside a
// testing/synctest bubble.
func OnPort() Option { return optionFunc(func(o *options) { o.port = true }) }

// WithHistory bounds the memory of the past: at least the last n changes of
// each resource are kept, and fewer than twice as many; what was before is as if
// compacted. Without it every change is kept until Compact.
func WithHistory(n int) Option { return optionFunc(func(o *options) { o.history = n }) }

// WithBookmarkInterval sets how often a watch that allows bookmarks gets one. It
// is a minute without this option, as in the real server; 0 stops them, but for
// the one that ends the initial events.
func WithBookmarkInterval(d time.Duration) Option {
	return optionFunc(func(o *options) { o.bookmarkInterval = d })
}

// WithWatchTimeout sets how long a watch lasts that does not say so itself by
// timeoutSeconds. Without this option it is chosen at random between 30 and 60
// minutes, as in the real server.
func WithWatchTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.watchTimeout = d })
}

// WithResource serves a kind that is not built in, in JSON.
func WithResource(r Resource) Option {
	return optionFunc(func(o *options) { o.resources = append(o.resources, r) })
}
