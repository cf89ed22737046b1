package factory

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Option configures a factory of typed informers. The options are those of package informers of
// client-go.
type Option func(*options)

type options struct {
	namespace string
	tweak     func(*metav1.ListOptions)
	base      []informers.SharedInformerOption
}

func (o *options) add(option informers.SharedInformerOption) { o.base = append(o.base, option) }

// WithNamespace limits the informers to a namespace.
func WithNamespace(namespace string) Option {
	return func(o *options) {
		o.namespace = namespace
		o.add(informers.WithNamespace(namespace))
	}
}

// WithTweakListOptions sets a function that edits the options of each list and watch.
func WithTweakListOptions(tweak func(*metav1.ListOptions)) Option {
	return func(o *options) {
		o.tweak = tweak
		o.add(informers.WithTweakListOptions(tweak))
	}
}

// WithTransform sets a transform of all informers. It must not change the key.
func WithTransform(transform cache.TransformFunc) Option {
	return func(o *options) { o.add(informers.WithTransform(transform)) }
}

// WithCustomResyncConfig sets the resync periods of some types.
func WithCustomResyncConfig(periods map[metav1.Object]time.Duration) Option {
	return func(o *options) { o.add(informers.WithCustomResyncConfig(periods)) }
}

// WithInformerName sets the name of the informers in metrics.
func WithInformerName(name *cache.InformerName) Option {
	return func(o *options) { o.add(informers.WithInformerName(name)) }
}
