package reflectortest

import "time"

// An Option configures NewServer and Start.
type Option interface{ apply(*options) }

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

type options struct {
	port             bool
	history          int
	bookmarkInterval time.Duration
	watchTimeout     time.Duration
	collects         bool
	collectLatency   time.Duration
	resources        []Resource
	// admissions are *admission, whose type would bring the trees of the stored objects into each
	// package that has an option: its users would compile them.
	admissions  []any
	defaults    bool // of built-in kinds
	definitions bool // the server follows CustomResourceDefinitions
	stableUIDs  bool
	err         error // of WithDefinition
}

// OnPort serves on a port of the loopback interface instead of in memory, for curl or for other
// processes. Such a server does not work inside a testing/synctest bubble.
func OnPort() Option { return optionFunc(func(o *options) { o.port = true }) }

// WithHistory bounds the history: the server keeps at least the last n changes of each resource,
// and fewer than twice as many. Older changes are compacted. Without it the server keeps every
// change until Compact.
func WithHistory(n int) Option { return optionFunc(func(o *options) { o.history = n }) }

// WithBookmarkInterval sets how often a watch that allows bookmarks gets one. The default is a
// minute, as in the real server. 0 stops them, except for the one that ends the initial events.
func WithBookmarkInterval(d time.Duration) Option {
	return optionFunc(func(o *options) { o.bookmarkInterval = d })
}

// WithStableUIDs derives the UID of an object, and its name if the server generates it, from its
// resource, its namespace, its name or generateName, and how often the server has created such an object. A
// program that takes a part of a UID into a name, as some operators do, then makes the same names in each run,
// and one that lists gets its objects in the same order. Both are random by default, because objects of two
// servers must not share a UID.
func WithStableUIDs() Option { return optionFunc(func(o *options) { o.stableUIDs = true }) }

// WithWatchTimeout sets the duration of a watch without timeoutSeconds. The default is a random
// duration between 30 and 60 minutes, as in the real server.
func WithWatchTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.watchTimeout = d })
}

// WithGarbageCollection makes the server collect garbage by itself, as Server.CollectGarbage does: a
// pass begins latency after the first change since the last pass. So a pass that changes something
// leads to another one, until nothing changes. Without this option, dependents stay when their owners
// are gone, a deleted namespace stays with what is in it, and the finalizers of the policies Foreground
// and Orphan hold an object until the test removes them or calls CollectGarbage.
func WithGarbageCollection(latency time.Duration) Option {
	return optionFunc(func(o *options) { o.collects, o.collectLatency = true, latency })
}

// WithResource serves a kind that is not built in, in JSON.
func WithResource(r Resource) Option {
	r = r.withStructural()
	return optionFunc(func(o *options) { o.resources = append(o.resources, r) })
}
