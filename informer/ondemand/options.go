package ondemand

// DefaultMaxObjects is how many objects are kept.
const DefaultMaxObjects = 1000

// Option configures [Objects].
type Option interface{ apply(*options) }

type options struct {
	objects int
	bytes   int64 // 0 for no limit
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// WithMaxObjects sets how many objects are kept. The default is [DefaultMaxObjects]; 0
// and less keeps none, so that every Get is a request.
func WithMaxObjects(n int) Option {
	return optionFunc(func(o *options) { o.objects = max(n, 0) })
}

// WithMaxBytes sets how much memory the kept objects take, as memsize.Of estimates
// it. An object that is larger by itself is not kept. The default, and what is not
// positive, is no such limit; that of [WithMaxObjects] goes on to hold.
func WithMaxBytes(n int64) Option {
	return optionFunc(func(o *options) { o.bytes = max(n, 0) })
}
