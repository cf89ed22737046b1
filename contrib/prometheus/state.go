package prometheus

import (
	"strconv"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	prom "github.com/prometheus/client_golang/prometheus"
)

func newDesc(name, help string, labels ...string) *prom.Desc {
	return prom.NewDesc(prom.BuildFQName(namespace, "", name), help, append([]string{"informer"}, labels...), nil)
}

var (
	objects    = newDesc("cache_objects", "Objects in the cache.")
	rejected   = newDesc("cache_rejected_objects", "Objects that the cache rejected, so that it lacks them or their last state.")
	version    = newDesc("cache_resource_version", "The cache's resource version, if it is a number.")
	synced     = newDesc("synced", "Whether the cache has been filled.")
	ready      = newDesc("ready", "Whether the cache can be relied on.")
	reflectors = newDesc("reflectors", "Reflectors by what they do.", "phase")
	contact    = newDesc("contact_age_seconds", "Time since the server was heard of.")
	broken     = newDesc("watch_broken_seconds", "Time since there has been no watch; 0 while there is one.")

	states = []*prom.Desc{objects, rejected, version, synced, ready, reflectors, contact, broken}
)

// phases are all phases of a reflector. A phase without a reflector has the value 0.
var phases = []reflector.Phase{reflector.Stopped, reflector.Listing, reflector.Opening, reflector.Watching, reflector.Polling, reflector.BackingOff}

// queueMetric is a metric of the event queues of a subscriber or of a reconciler.
type queueMetric struct {
	subscriber, reconciler *prom.Desc
	kind                   prom.ValueType
	value                  func(*eventqueue.Stats) float64
}

func newQueueMetric(name, help string, kind prom.ValueType, value func(*eventqueue.Stats) float64) queueMetric {
	reconciler := prom.NewDesc(prom.BuildFQName(namespace, "reconcile_queue", name), help, []string{"reconciler"}, nil)
	return queueMetric{newDesc("queue_"+name, help, "subscriber"), reconciler, kind, value}
}

// collect sends the metrics of event queues.
func collect(to chan<- prom.Metric, stats *eventqueue.Stats, desc func(*queueMetric) *prom.Desc, labels ...string) {
	for i := range queueMetrics {
		q := &queueMetrics[i]
		to <- prom.MustNewConstMetric(desc(q), q.kind, q.value(stats), labels...)
	}
}

var queueMetrics = []queueMetric{
	newQueueMetric("keys", "Objects with events that wait or are being handled.", prom.GaugeValue, func(s *eventqueue.Stats) float64 { return float64(s.Keys) }),
	newQueueMetric("waiting", "Objects with events that wait.", prom.GaugeValue, func(s *eventqueue.Stats) float64 { return float64(s.Waiting) }),
	newQueueMetric("delayed", "Objects in back-off.", prom.GaugeValue, func(s *eventqueue.Stats) float64 { return float64(s.Delayed) }),
	newQueueMetric("out", "Objects that are being handled.", prom.GaugeValue, func(s *eventqueue.Stats) float64 { return float64(s.InFlight) }),
	newQueueMetric("held", "Objects that wait for a cache, of those that are being handled.", prom.GaugeValue, func(s *eventqueue.Stats) float64 { return float64(s.Held) }),
	newQueueMetric("events", "Events that wait or are being handled.", prom.GaugeValue, func(s *eventqueue.Stats) float64 { return float64(s.Events) }),
	newQueueMetric("oldest_seconds", "Age of the oldest event.", prom.GaugeValue, func(s *eventqueue.Stats) float64 { return s.Oldest.Seconds() }),
	newQueueMetric("merged_total", "Events that were merged into others.", prom.CounterValue, func(s *eventqueue.Stats) float64 { return float64(s.Merged) }),
	newQueueMetric("dropped_total", "Deletions that no handler hears of.", prom.CounterValue, func(s *eventqueue.Stats) float64 { return float64(s.Dropped) }),
	newQueueMetric("retries_total", "Times that something was handled again after a failure.", prom.CounterValue, func(s *eventqueue.Stats) float64 { return float64(s.Retries) }),
	newQueueMetric("panics_total", "Handlers that panicked.", prom.CounterValue, func(s *eventqueue.Stats) float64 { return float64(s.Panics) }),
	newQueueMetric("given_up_total", "Objects given up with a permanent error.", prom.CounterValue, func(s *eventqueue.Stats) float64 { return float64(s.GivenUp) }),
}

// shown is an informer in the metrics.
type shown[T any] struct {
	name     string
	informer *informer.Informer[T]

	// mu protects the fields below it: several scrapes may run at once.
	mu sync.Mutex
	// names are the names of the subscribers. A subscriber keeps its name until it is closed: a
	// counter that took over another subscriber's name would jump.
	names map[*informer.Subscription[T]]string
}

// collect sends the state of the informer.
func (s *shown[T]) collect(to chan<- prom.Metric) {
	i := s.informer
	gauge := func(desc *prom.Desc, value float64, labels ...string) {
		to <- prom.MustNewConstMetric(desc, prom.GaugeValue, value, append([]string{s.name}, labels...)...)
	}
	gauge(objects, float64(i.Cache().Len()))
	lacking := len(i.Cache().Rejected())
	for _, p := range i.Cache().Partitions() {
		lacking += len(p.Rejected())
	}
	gauge(rejected, float64(lacking))
	if n, err := strconv.ParseUint(i.Cache().ResourceVersion(), 10, 64); err == nil {
		gauge(version, float64(n))
	}
	gauge(synced, float64(count(lifecycle.IsClosed(i.Synced()))))
	gauge(ready, float64(count(i.Ready() == nil)))
	in := map[reflector.Phase]float64{}
	var heard bool
	var silent, without time.Duration
	for _, scope := range i.Scopes() {
		in[scope.State.Phase]++
		if !scope.State.LastContact.IsZero() {
			heard, silent = true, max(silent, time.Since(scope.State.LastContact))
		}
		if !scope.Broken.IsZero() {
			without = max(without, time.Since(scope.Broken))
		}
	}
	for _, phase := range phases {
		gauge(reflectors, in[phase], string(phase))
	}
	if heard {
		gauge(contact, silent.Seconds())
	}
	gauge(broken, without.Seconds())
	for subscription, name := range s.subscribers() {
		stats := subscription.Stats()
		collect(to, &stats, func(q *queueMetric) *prom.Desc { return q.subscriber }, s.name, name)
	}
}

// addNames adds the names of the open subscribers, as their observer gets them.
func (s *shown[T]) addNames(to map[string]bool) {
	for _, subscription := range s.informer.Subscriptions() {
		to[label(subscription.Name())] = true
	}
}

// subscribers returns the open subscribers, with their names.
func (s *shown[T]) subscribers() map[*informer.Subscription[T]]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.informer.Subscriptions()
	now := make(map[*informer.Subscription[T]]string, len(all))
	taken := map[string]bool{}
	for _, subscription := range all {
		if name, known := s.names[subscription]; known {
			now[subscription], taken[name] = name, true
		}
	}
	for _, subscription := range all {
		if _, known := now[subscription]; !known {
			name := unique(label(subscription.Name()), func(name string) bool { return taken[name] })
			now[subscription], taken[name] = name, true
		}
	}
	s.names = now
	return now
}
