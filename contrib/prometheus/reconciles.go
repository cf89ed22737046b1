package prometheus

import (
	"context"
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
)

// ReconcilerOptions returns options for a reconciler. They measure its calls under its name.
// [WorkQueues] measures its work queue.
func (m *Metrics) ReconcilerOptions() []reconcile.Option {
	return []reconcile.Option{reconcile.WithObserver(reconciles{m})}
}

// reconciles measures the calls of reconcile functions.
type reconciles struct{ of *Metrics }

var _ reconcile.Observer = reconciles{}

// Triggered implements [reconcile.Observer].
func (reconciles) Triggered(context.Context, reconcile.Trigger) {}

// Reconciling implements [reconcile.Observer].
func (r reconciles) Reconciling(ctx context.Context, call reconcile.Call) (context.Context, func(reconcile.Result, error)) {
	name := label(call.Reconciler)
	r.begin(name)
	began := time.Now()
	return ctx, func(result reconcile.Result, err error) {
		r.of.reconciles.WithLabelValues(name, reconciledAs(result, err)).Observe(time.Since(began).Seconds())
	}
}

// begin creates the counters of every result with 0 at the first call of a reconciler. Otherwise
// rate() would miss the first failure, which creates its counter.
func (r reconciles) begin(name string) {
	if _, known := r.of.reconcilers.LoadOrStore(name, nil); known {
		return
	}
	for _, result := range []string{"ok", "requeue_after", "error", "permanent", "panic"} {
		r.of.reconciles.WithLabelValues(name, result)
	}
}

func reconciledAs(result reconcile.Result, err error) string {
	switch {
	case errors.Is(err, informer.ErrPanicked):
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
