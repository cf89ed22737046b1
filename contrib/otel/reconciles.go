package otel

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/store"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// maxLinks is the largest number of links from a span of a reconcile to further events.
const maxLinks = 8

// ReconcilerOptions returns options that trace a reconciler.
func (t *Tracing) ReconcilerOptions() []reconcile.Option {
	return []reconcile.Option{reconcile.WithObserver(&reconciles{tracer: t.tracer, chosenOnly: t.chosenOnly})}
}

// reconciles traces the calls of reconcile functions.
type reconciles struct {
	tracer     trace.Tracer
	chosenOnly bool
	triggers   recent[waiting, triggers]
}

// waiting is a key that waits for a reconciler.
type waiting struct {
	reconciler string
	key        store.Key
}

// triggers are the spans of the handlers that triggered a reconcile. The first one is separate.
type triggers struct {
	first trace.SpanContext
	at    time.Time
	more  []trace.Link
}

var _ reconcile.Observer = (*reconciles)(nil)

// Triggered implements [reconcile.Observer].
func (r *reconciles) Triggered(ctx context.Context, t reconcile.Trigger) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsSampled() {
		return
	}
	r.triggers.change(waiting{t.Reconciler, t.Key}, func(now triggers) triggers {
		switch {
		case !now.first.IsValid():
			now.first, now.at = span, time.Now()
		case len(now.more) < maxLinks:
			now.more = append(now.more, trace.Link{SpanContext: span})
		}
		return now
	})
}

// Reconciling implements [reconcile.Observer].
func (r *reconciles) Reconciling(ctx context.Context, call reconcile.Call) (context.Context, func(reconcile.Result, error)) {
	of, triggered := r.triggers.take(waiting{call.Reconciler, call.Key})
	if r.chosenOnly && !triggered {
		return ctx, nil
	}
	named := trace.WithAttributes(attribute.String("kubereflector.reconciler", call.Reconciler))
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), named}
	if triggered {
		if runs := trace.SpanContextFromContext(ctx); runs.IsValid() {
			of.more = append(of.more, trace.Link{SpanContext: runs})
		}
		ctx = trace.ContextWithSpanContext(ctx, of.first)
		options = append(options, trace.WithLinks(of.more...))
		_, queue := r.tracer.Start(ctx, "queue "+call.Reconciler, trace.WithTimestamp(of.at), named)
		if queue.IsRecording() {
			queue.SetAttributes(keyAttributes(call.Key)...)
		}
		queue.End()
	}
	ctx, span := r.tracer.Start(ctx, "reconcile "+call.Reconciler, options...)
	if span.IsRecording() {
		span.SetAttributes(append(keyAttributes(call.Key), attribute.Int("kubereflector.attempt", call.Attempt))...)
	}
	return ctx, func(result reconcile.Result, err error) {
		if result.RequeueAfter > 0 && err == nil && span.IsRecording() {
			span.SetAttributes(attribute.Stringer("kubereflector.requeue_after", result.RequeueAfter))
		}
		fail(span, err)
		span.End()
	}
}
