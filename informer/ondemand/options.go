package ondemand

// DefaultMaxObjects is the default of [WithMaxObjects].
const DefaultMaxObjects = 1000

// Option configures [Objects].
type Option interface{ apply(*options) }

type options struct {
	objects int
	bytes   int64 // 0 for no limit
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// WithMaxObjects sets how many objects are kept. The default is [DefaultMaxObjects]. With 0 or less
// none are kept, so every Get is a request.
func WithMaxObjects(n int) Option {
	return optionFunc(func(o *options) { o.objects = max(n, 0) })
}

// WithMaxBytes sets how much memory the kept objects take, as memsize.Of estimates it. A single
// object over the limit is not kept. The default is no limit; 0 and less mean the same.
// [WithMaxObjects] still applies.
func WithMaxBytes(n int64) Option {
	return optionFunc(func(o *options) { o.bytes = max(n, 0) })
}
