package controllerruntime

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/memsize"
	"github.com/kubereflector/kubereflector/store"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

func newDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kubereflector_kind_"+name, help, []string{"group", "version", "kind", "form"}, nil)
}

var (
	objectsDesc    = newDesc("objects", "Objects in the caches.")
	bytesDesc      = newDesc("bytes", "Estimated memory of the objects in the caches, as if objects shared nothing.")
	cacheLagDesc   = newDesc("cache_lag_seconds", "How long a cache has had no watch; 0 while it has one.")
	handlerLagDesc = newDesc("handler_lag_seconds", "Age of the oldest event that a handler has not handled.")
)

// sizes are the metrics of the informers that run in the caches of NewCache.
var sizes = &sizeCollector{running: map[measured]*sampler{}}

// registerSizes adds the metrics to those of the manager. An error means that another copy of this
// package did it before.
var registerSizes = sync.OnceFunc(func() { _ = metrics.Registry.Register(sizes) })

// sizeCollector measures informers while it is scraped, and does nothing otherwise.
type sizeCollector struct {
	mu      sync.Mutex // protects running
	running map[measured]*sampler
}

// measured is an informer with metrics.
type measured interface {
	labels() series
	size(sampler *sampler) size
}

func (c *sizeCollector) add(i measured) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[i] = &sampler{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, i)
	}
}

// Describe sends the descriptions of the metrics.
func (c *sizeCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{objectsDesc, bytesDesc, cacheLagDesc, handlerLagDesc} {
		to <- desc
	}
}

// Collect measures the informers of each kind.
func (c *sizeCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	running := maps.Clone(c.running)
	c.mu.Unlock()
	of := map[series]size{}
	for i, s := range running {
		of[i.labels()] = of[i.labels()].plus(i.size(s))
	}
	for each, size := range of {
		gauge := func(desc *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, each.kind.Group, each.kind.Version, each.kind.Kind, each.form)
		}
		gauge(objectsDesc, float64(size.objects))
		gauge(bytesDesc, size.bytes)
		gauge(cacheLagDesc, size.cacheLag.Seconds())
		gauge(handlerLagDesc, size.handlerLag.Seconds())
	}
}

// series is what the informers of one series have in common.
type series struct {
	kind schema.GroupVersionKind
	form string
}

func seriesOf(example runtime.Object, kind schema.GroupVersionKind) series {
	switch example.(type) {
	case runtime.Unstructured:
		return series{kind, "unstructured"}
	case *metav1.PartialObjectMetadata:
		return series{kind, "metadata"}
	default:
		return series{kind, "typed"}
	}
}

type size struct {
	objects              int
	bytes                float64
	cacheLag, handlerLag time.Duration
}

func (s size) plus(other size) size {
	return size{s.objects + other.objects, s.bytes + other.bytes, max(s.cacheLag, other.cacheLag), max(s.handlerLag, other.handlerLag)}
}

func (i *sharedInformer) labels() series { return i.series }

func (i *referenceInformer) labels() series { return series{i.kind, "reference"} }

func (i *sharedInformer) size(sampler *sampler) size {
	return sizeOf(sampler, i.Informer(), i.Informer())
}

// size counts the objects that handlers get. Objects that readers have requested add only bytes.
func (i *referenceInformer) size(sampler *sampler) size {
	s := sizeOf(sampler, i.Informer(), i.merged.informers()...)
	s.bytes += float64(i.whole.Stats().Bytes)
	return s
}

// sizeOf measures the cache and the handlers of an informer, and the watches of its sources.
func sizeOf(sampler *sampler, shown *informer.Informer[client.Object], sources ...*informer.Informer[client.Object]) (s size) {
	state := shown.Cache().Snapshot()
	s.objects, s.bytes = state.Len(), sampler.bytes(state)
	for _, source := range sources {
		for _, scope := range source.Scopes() {
			if !scope.Broken.IsZero() {
				s.cacheLag = max(s.cacheLag, time.Since(scope.Broken))
			}
		}
	}
	for _, subscription := range shown.Subscriptions() {
		s.handlerLag = max(s.handlerLag, subscription.Stats().Oldest)
	}
	return s
}

// RunWithContext runs the informer until ctx ends. Its metrics exist as long as it runs.
func (i *sharedInformer) RunWithContext(ctx context.Context) {
	if !i.first(ctx, i) {
		return
	}
	if i.series.kind.Kind != "" {
		defer sizes.add(i)()
	}
	i.SharedIndexInformer.RunWithContext(ctx)
}

// Run is RunWithContext until a channel is closed.
func (i *sharedInformer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// oneRun keeps another call of Run from what belongs to the first.
type oneRun struct{ begun atomic.Bool }

// first reports whether this is the first call for an informer, and reports any other as an error.
func (o *oneRun) first(ctx context.Context, i interface {
	Informer() *informer.Informer[client.Object]
	IsStopped() bool
}) bool {
	if o.begun.CompareAndSwap(false, true) {
		return true
	}
	name := i.Informer().Name()
	err := lifecycle.AlreadyRunning("informer " + name)
	if i.IsStopped() {
		err = clientgo.ErrStopped
	}
	utilruntime.HandleErrorWithContext(ctx, err, "Informer was not started", "informer", name)
	return false
}

// sampler estimates the memory of the objects in a cache. The size of a pod takes some 25 µs to
// compute, so the sampler divides a large cache into parts, and measures one part each time. It
// takes the sizes of the other parts from earlier times.
type sampler struct {
	mu    sync.Mutex // several scrapes may run at once
	parts []part
	next  int
}

// part is every len(parts)th object of a cache.
type part struct{ objects, bytes int64 }

// maxSample is the largest number of objects in a part.
const maxSample = 500

func (s *sampler) bytes(state *store.Snapshot[client.Object]) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := 1
	for parts*maxSample < state.Len() {
		parts *= 2 // the number hardly ever changes
	}
	if parts != len(s.parts) {
		s.parts, s.next = make([]part, parts), 0
	}
	var measured part
	n := 0
	for _, object := range state.All() {
		if n%parts == s.next {
			measured.objects++
			measured.bytes += memsize.Of(object)
		}
		n++
	}
	s.parts[s.next] = measured
	s.next = (s.next + 1) % parts
	var all part
	for _, p := range s.parts {
		all.objects += p.objects
		all.bytes += p.bytes
	}
	if all.objects == 0 {
		return 0
	}
	return float64(all.bytes) / float64(all.objects) * float64(state.Len())
}
