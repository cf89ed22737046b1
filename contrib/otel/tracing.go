package otel

import (
	"context"
	"errors"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/kubereflector/kubereflector/contrib/otel"

// Tracing makes spans of what informers do. See the package documentation for which.
//
// Create one with [New].
type Tracing struct {
	tracer trace.Tracer

	// mu protects chains, which are those of informers by their names.
	mu     sync.Mutex
	chains map[string]*chains
}

// New returns what makes spans by a provider.
func New(provider trace.TracerProvider) *Tracing {
	return &Tracing{tracer: provider.Tracer(scope), chains: map[string]*chains{}}
}

// chainsOf returns the traces that changes of an informer have begun.
func (t *Tracing) chainsOf(informer string) *chains {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.chains[informer]
	if c == nil {
		c = &chains{}
		t.chains[informer] = c
	}
	return c
}

// Options returns what an informer is to be made with, so that it is traced. name becomes
// its name.
func (t *Tracing) Options(name string) []informer.Option {
	o := observer{t.tracer, name, t.chainsOf(name)}
	return []informer.Option{
		informer.WithName(name), informer.WithObserver(o), informer.WithReflector(reflector.WithObserver(o)),
	}
}

// observer traces one informer.
type observer struct {
	tracer trace.Tracer
	name   string
	chains *chains
}

var (
	_ informer.Observer  = observer{}
	_ reflector.Observer = observer{}
)

// Listed implements [reflector.Observer].
func (o observer) Listed(list reflector.List) {
	_, span := o.tracer.Start(context.Background(), "list "+o.name, trace.WithTimestamp(list.Began),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("kubereflector.informer", o.name),
			attribute.Int("kubereflector.objects", list.Objects),
			attribute.Bool("kubereflector.streamed", list.Streamed)))
	fail(span, list.Err)
	span.End(trace.WithTimestamp(list.Began.Add(list.Took)))
}

// Watched implements [reflector.Observer].
func (o observer) Watched(watch reflector.Watch) {
	_, span := o.tracer.Start(context.Background(), "watch "+o.name, trace.WithTimestamp(watch.Began),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("kubereflector.informer", o.name),
			attribute.Int("kubereflector.events", watch.Events)))
	fail(span, watch.Err)
	span.End(trace.WithTimestamp(watch.Began.Add(watch.Lasted)))
}

// Handling implements [informer.Observer].
func (o observer) Handling(ctx context.Context, call informer.Handling) (context.Context, func(error)) {
	ctx, links := o.queued(ctx, call)
	ctx, span := o.tracer.Start(ctx, "handle "+o.name+"/"+call.Subscription, append(links,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("kubereflector.informer", o.name),
			attribute.String("kubereflector.subscriber", call.Subscription)))...)
	if span.IsRecording() {
		span.SetAttributes(eventAttributes(call.Key, call.Type, call.Origin)...)
	}
	return ctx, func(err error) {
		fail(span, err)
		span.End()
	}
}

// fail records a failure. Exporters drop all that they were about to send with a text that
// is not UTF-8, and errors may quote what a server sent.
func fail(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	text := err.Error()
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		err = errors.New(text)
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, text)
}
