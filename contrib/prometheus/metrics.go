package prometheus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	prom "github.com/prometheus/client_golang/prometheus"
)

const namespace = "kubereflector"

// Metrics are the metrics of informers: a [prom.Collector], to be registered. See the
// package documentation for what there is.
//
// Create one with [New].
type Metrics struct {
	lists    *prom.HistogramVec
	listed   *prom.GaugeVec
	watches  *prom.HistogramVec
	events   *prom.CounterVec
	handlers *prom.HistogramVec
	own      []prom.Collector

	// mu protects the fields below it.
	mu      sync.Mutex
	sources []*source
}

var (
	_ prom.Collector     = (*Metrics)(nil)
	_ informer.Observer  = observer{}
	_ reflector.Observer = observer{}
)

// source is an informer of any type that is shown.
type source struct {
	name    string
	collect func(chan<- prom.Metric)
}

// New returns metrics that show nothing yet.
func New() *Metrics {
	m := &Metrics{
		lists: prom.NewHistogramVec(prom.HistogramOpts{
			Namespace: namespace, Name: "list_duration_seconds", Help: "How long lists and watch-lists took.",
			Buckets: prom.ExponentialBuckets(0.01, 4, 9),
		}, []string{"informer", "reason", "streamed"}),
		listed: prom.NewGaugeVec(prom.GaugeOpts{
			Namespace: namespace, Name: "list_objects", Help: "How many objects the last list brought.",
		}, []string{"informer"}),
		watches: prom.NewHistogramVec(prom.HistogramOpts{
			Namespace: namespace, Name: "watch_duration_seconds", Help: "How long watches lasted.",
			Buckets: []float64{1, 10, 60, 300, 420, 600, 900},
		}, []string{"informer", "reason"}),
		events: prom.NewCounterVec(prom.CounterOpts{
			Namespace: namespace, Name: "events_total", Help: "Changes of the cache.",
		}, []string{"informer", "type", "origin"}),
		handlers: prom.NewHistogramVec(prom.HistogramOpts{
			Namespace: namespace, Name: "handler_duration_seconds", Help: "How long calls of handlers took.",
			Buckets: prom.ExponentialBuckets(0.0001, 10, 7),
		}, []string{"informer", "subscriber", "result"}),
	}
	m.own = []prom.Collector{m.lists, m.listed, m.watches, m.events, m.handlers}
	return m
}

// Describe implements [prom.Collector].
func (m *Metrics) Describe(to chan<- *prom.Desc) {
	for _, c := range m.own {
		c.Describe(to)
	}
	describe(to)
}

// Collect implements [prom.Collector].
func (m *Metrics) Collect(to chan<- prom.Metric) {
	for _, c := range m.own {
		c.Collect(to)
	}
	m.mu.Lock()
	sources := m.sources
	m.mu.Unlock()
	for _, s := range sources {
		s.collect(to)
	}
}

// Options returns what an informer is to be made with, so that its lists, watches and the
// calls of its handlers are measured. name becomes its name, which is the label of its
// metrics: give each informer another one.
func (m *Metrics) Options(name string) []informer.Option {
	o := observer{m, label(name)}
	return []informer.Option{
		informer.WithName(name), informer.WithObserver(o), informer.WithReflector(reflector.WithObserver(o)),
	}
}

// Add shows the state of an informer, and counts the changes of its cache, until remove is
// called. What was counted stays. An informer that has the name of another one is shown as
// name#2, and so on; so is a subscriber that has the name of another one of its informer.
func Add[T any](m *Metrics, i *informer.Informer[T]) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := unique(label(i.Name()), func(name string) bool {
		return slices.ContainsFunc(m.sources, func(s *source) bool { return s.name == name })
	})
	stop := i.Follow(newCounts[T](m.events, name))
	added := &source{name: name, collect: (&shown[T]{name: name, informer: i}).collect}
	m.sources = append(slices.Clone(m.sources), added)
	return func() {
		stop()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sources = slices.DeleteFunc(slices.Clone(m.sources), func(s *source) bool { return s == added })
	}
}

// label returns a name that can be a label: one that is not UTF-8 makes Prometheus' client
// panic.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// unique returns a name, with a number if it is taken.
func unique(name string, taken func(string) bool) string {
	free := name
	for n := 2; taken(free); n++ {
		free = fmt.Sprintf("%s#%d", name, n)
	}
	return free
}

// observer measures what happens in one informer.
type observer struct {
	of   *Metrics
	name string
}

// Listed implements [reflector.Observer].
func (o observer) Listed(list reflector.List) {
	o.of.lists.WithLabelValues(o.name, reasonOf(list.Err), strconv.FormatBool(list.Streamed)).Observe(list.Took.Seconds())
	if list.Err == nil {
		o.of.listed.WithLabelValues(o.name).Set(float64(list.Objects))
	}
}

// Watched implements [reflector.Observer].
func (o observer) Watched(watch reflector.Watch) {
	o.of.watches.WithLabelValues(o.name, reasonOf(watch.Err)).Observe(watch.Lasted.Seconds())
}

// Handling implements [informer.Observer].
func (o observer) Handling(ctx context.Context, call informer.Handling) (context.Context, func(error)) {
	began := time.Now()
	return ctx, func(err error) {
		o.of.handlers.WithLabelValues(o.name, label(call.Subscription), resultOf(err)).Observe(time.Since(began).Seconds())
	}
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, informer.ErrPanicked):
		return "panic"
	case eventqueue.IsPermanent(err):
		return "permanent"
	}
	return "error"
}

// counts counts the changes of a cache.
type counts[T any] struct {
	of   *prom.CounterVec
	name string
	// known are the counters that were used, so that none is looked up for each change.
	known map[kind]prom.Counter
}

// kind is what changes are told apart by.
type kind struct {
	change store.ChangeType
	origin store.Origin
}

func newCounts[T any](of *prom.CounterVec, name string) *counts[T] {
	return &counts[T]{of: of, name: name, known: map[kind]prom.Counter{}}
}

// Start implements [store.Follower].
func (c *counts[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (c *counts[T]) Commit(commit *store.Commit[T]) {
	for i := range commit.Changes {
		k := kind{commit.Changes[i].Type, commit.Origin}
		counter := c.known[k]
		if counter == nil {
			counter = c.of.WithLabelValues(c.name, k.change.String(), k.origin.String())
			c.known[k] = counter
		}
		counter.Inc()
	}
}
