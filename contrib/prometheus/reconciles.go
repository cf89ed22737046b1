package prometheus

import (
	"context"
	"errors"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
)

// ReconcilerOptions returns what a reconciler is to be made with, so that its calls are
// measured under its name. Its work queue is measured by [WorkQueues].
func (m *Metrics) ReconcilerOptions() []controller.ReconcilerOption {
	return []controller.ReconcilerOption{controller.WithObserver(reconciles{m})}
}

// reconciles measures the calls of reconcile functions.
type reconciles struct{ of *Metrics }

var _ controller.Observer = reconciles{}

// Triggered implements [controller.Observer].
func (reconciles) Triggered(context.Context, controller.Trigger) {}

// Reconciling implements [controller.Observer].
func (r reconciles) Reconciling(ctx context.Context, call controller.Reconciling) (context.Context, func(controller.Result, error)) {
	name := label(call.Reconciler)
	r.begin(name)
	began := time.Now()
	return ctx, func(result controller.Result, err error) {
		r.of.reconciles.WithLabelValues(name, reconciledAs(result, err)).Observe(time.Since(began).Seconds())
	}
}

// begin has every result be counted from 0 with the first call of a reconciler: who asks by
// how much a counter has grown is told nothing of one that begins with its first failure.
func (r reconciles) begin(name string) {
	if _, known := r.of.reconcilers.LoadOrStore(name, nil); known {
		return
	}
	for _, result := range []string{"ok", "requeue_after", "error", "permanent", "panic"} {
		r.of.reconciles.WithLabelValues(name, result)
	}
}

func reconciledAs(result controller.Result, err error) string {
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
