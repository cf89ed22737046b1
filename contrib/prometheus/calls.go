package prometheus

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	prom "github.com/prometheus/client_golang/prometheus"
)

// subscriber has the labels of a subscriber's series.
type subscriber struct{ informer, name string }

// measure is one measurement of a subscriber.
type measure uint8

const (
	waited measure = iota
	succeeded
	failed
	givenUp
	panicked
	measures
)

// results are the labels of the calls of handlers.
var results = [measures]string{succeeded: "ok", failed: "error", givenUp: "permanent", panicked: "panic"}

// series caches the series of one subscriber, so that an event needs no lookup by labels.
type series [measures]atomic.Pointer[prom.Observer]

// subscribers are the subscribers with series.
type subscribers struct {
	// mu is held while series are created and deleted, so that known always matches the existing
	// series.
	mu    sync.Mutex
	known sync.Map // the *series of a subscriber
}

// observerOf returns the series of a subscriber for a measurement. Use it at once: it may be
// deleted later, when its subscriber is closed.
func (m *Metrics) observerOf(of subscriber, what measure) prom.Observer {
	if known, ok := m.subscribers.known.Load(of); ok {
		if o := known.(*series)[what].Load(); o != nil {
			return *o
		}
	}
	m.subscribers.mu.Lock()
	defer m.subscribers.mu.Unlock()
	known, _ := m.subscribers.known.LoadOrStore(of, &series{})
	place := &known.(*series)[what]
	if o := place.Load(); o != nil {
		return *o
	}
	var o prom.Observer
	if what == waited {
		o = m.waits.WithLabelValues(of.informer, of.name)
	} else {
		o = m.handlers.WithLabelValues(of.informer, of.name, results[what])
	}
	place.Store(&o)
	return o
}

// forget deletes the series of a subscriber.
func (m *Metrics) forget(one subscriber) {
	m.subscribers.mu.Lock()
	defer m.subscribers.mu.Unlock()
	m.subscribers.known.Delete(one)
	labels := prom.Labels{"informer": one.informer, "subscriber": one.name}
	m.handlers.DeletePartialMatch(labels)
	m.waits.DeletePartialMatch(labels)
}

// tidy deletes the series of closed subscribers of the sources.
func (m *Metrics) tidy(sources []*source) {
	var known []subscriber
	for key := range m.subscribers.known.Range {
		known = append(known, key.(subscriber))
	}
	// After known is read: a subscriber with series is then either open or closed.
	open := map[string]map[string]bool{} // by the informer's label
	for _, s := range sources {
		if open[s.label] == nil {
			open[s.label] = map[string]bool{}
		}
		s.names(open[s.label])
	}
	for _, one := range known {
		if names := open[one.informer]; names != nil && !names[one.name] {
			m.forget(one)
		}
	}
}

// Queues implements [informer.Observer].
func (o observer) Queues(_, subscription string) func(eventqueue.TakeInfo) {
	queue := subscriber{o.name, label(subscription)}
	return func(t eventqueue.TakeInfo) {
		if t.Attempt <= 1 { // a retry waits for its back-off
			o.observerOf(queue, waited).Observe(t.Waited.Seconds())
		}
	}
}

// ReconcilerOptions returns options for a reconciler. They measure its calls, and how long its keys
// wait, under its name.
func (m *Metrics) ReconcilerOptions() []reconcile.Option {
	return []reconcile.Option{reconcile.WithObserver(reconcilerObserver{m})}
}

// AddReconciler shows the queue of a [reconcile.Reconciler] until remove is called. Call remove when
// the reconciler's Run has returned. It deletes all series of the reconciler, except for those that
// it shares with another of the same name. The queue of the other one is shown as name#2, and so on.
func AddReconciler(m *Metrics, r interface {
	Name() string
	Stats() eventqueue.Stats
}) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := unique(label(r.Name()), func(name string) bool {
		return slices.ContainsFunc(m.queues, func(q *queue) bool { return q.name == name })
	})
	added := &queue{name, label(r.Name()), r.Stats}
	m.queues = append(slices.Clone(m.queues), added)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		n := slices.Index(m.queues, added)
		if n < 0 {
			return
		}
		m.queues = slices.Delete(slices.Clone(m.queues), n, n+1)
		if !slices.ContainsFunc(m.queues, func(q *queue) bool { return q.label == added.label }) {
			labels := prom.Labels{"reconciler": added.label}
			m.reconciles.DeletePartialMatch(labels)
			m.keyWaits.DeletePartialMatch(labels)
			m.reconcilers.Delete(added.label)
		}
	}
}

// queue is the queue of a reconciler in the metrics.
type queue struct {
	name  string // the label of the state
	label string // the label of measurements by the reconciler's observer
	stats func() eventqueue.Stats
}

// reconcilerObserver measures the calls of reconcile functions.
type reconcilerObserver struct{ *Metrics }

var _ reconcile.Observer = reconcilerObserver{}

// Triggered implements [reconcile.Observer].
func (reconcilerObserver) Triggered(context.Context, reconcile.Trigger) {}

// Reconciling implements [reconcile.Observer].
func (r reconcilerObserver) Reconciling(ctx context.Context, call reconcile.Call) (context.Context, func(reconcile.Result, error)) {
	name := label(call.Reconciler)
	// Otherwise rate() would miss the first failure, which creates its counter.
	if _, known := r.reconcilers.LoadOrStore(name, nil); !known {
		for _, result := range []string{"ok", "requeue_after", "error", "permanent", "panic"} {
			r.reconciles.WithLabelValues(name, result)
		}
	}
	if call.Attempt <= 1 { // a retry waits for its back-off
		r.keyWaits.WithLabelValues(name).Observe(call.Waited.Seconds())
	}
	began := time.Now()
	return ctx, func(result reconcile.Result, err error) {
		r.reconciles.WithLabelValues(name, reconciledAs(result, err)).Observe(time.Since(began).Seconds())
	}
}

func reconciledAs(result reconcile.Result, err error) string {
	switch {
	case errors.Is(err, eventqueue.ErrAbandoned):
		return "panic"
	case eventqueue.IsPermanent(err):
		return "permanent"
	case err != nil:
		return "error"
	case result.RequeueAfter > 0:
		return "requeue_after"
	}
	return "ok"
}
