package prometheus

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	prom "github.com/prometheus/client_golang/prometheus"
)

// ReconcilerOptions returns options for a reconciler. They measure its calls, and how long its keys
// wait, under its name.
func (m *Metrics) ReconcilerOptions() []reconcile.Option {
	return []reconcile.Option{reconcile.WithObserver(reconcilerObserver{m})}
}

// AddReconciler shows the queue of a [reconcile.Reconciler] until remove is called. If another
// reconciler has the same name, this one is shown as name#2, and so on.
func AddReconciler(m *Metrics, r interface {
	Name() string
	Stats() eventqueue.Stats
}) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := unique(label(r.Name()), func(name string) bool {
		return slices.ContainsFunc(m.queues, func(q *queue) bool { return q.name == name })
	})
	added := &queue{name, r.Stats}
	m.queues = append(slices.Clone(m.queues), added)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.queues = slices.DeleteFunc(slices.Clone(m.queues), func(q *queue) bool { return q == added })
	}
}

// queue is the queue of a reconciler in the metrics.
type queue struct {
	name  string
	stats func() eventqueue.Stats
}

func (q *queue) collect(to chan<- prom.Metric) {
	stats := q.stats()
	collect(to, &stats, func(m *queueMetric) *prom.Desc { return m.reconciler }, q.name)
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
	r.keyWaits.WithLabelValues(name).Observe(call.Waited.Seconds())
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
