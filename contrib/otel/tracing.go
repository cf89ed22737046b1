package otel

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"unicode/utf8"
	"weak"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/kubereflector/kubereflector/contrib/otel"

// Tracing makes spans for informers. See the package documentation for the list.
//
// Create one with [New].
type Tracing struct {
	tracer     trace.Tracer
	chosenOnly bool

	// mu protects chains, which has the names of informers as keys. Their observers and followers keep them
	// in memory, because the program may make informers of ever new names.
	mu     sync.Mutex
	chains map[string]weak.Pointer[chains]
}

// Option is an option of [New].
type Option interface{ apply(*Tracing) }

type optionFunc func(*Tracing)

func (f optionFunc) apply(t *Tracing) { f(t) }

// WithChosenOnly makes spans for calls of handlers and reconcile functions only in traces of
// changes that [Add] chose. Every other call then costs one map lookup. Without this option each
// call has a span, and a span that a sampler drops takes about half a microsecond. Lists and
// watches have spans in both cases. A retry of a reconcile function belongs to no trace, so with this
// option it has no span.
func WithChosenOnly() Option { return optionFunc(func(t *Tracing) { t.chosenOnly = true }) }

// New returns a Tracing that makes spans by a provider.
func New(provider trace.TracerProvider, opts ...Option) *Tracing {
	t := &Tracing{tracer: provider.Tracer(scope), chains: map[string]weak.Pointer[chains]{}}
	for _, opt := range opts {
		opt.apply(t)
	}
	return t
}

// chainsOf returns the traces of an informer.
func (t *Tracing) chainsOf(informer string) *chains {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.chains[informer].Value(); c != nil {
		return c
	}
	maps.DeleteFunc(t.chains, func(_ string, c weak.Pointer[chains]) bool { return c.Value() == nil })
	c := &chains{}
	t.chains[informer] = weak.Make(c)
	return c
}

// Options returns options that trace an informer. name becomes the informer's name.
func (t *Tracing) Options(name string) []informer.Option {
	o := observer{t.tracer, t.chosenOnly, name, t.chainsOf(name), &calls{informer: name}}
	return []informer.Option{
		informer.WithName(name), informer.WithObserver(o), informer.WithReflector(reflector.WithObserver(o)),
	}
}

// observer traces one informer.
type observer struct {
	tracer     trace.Tracer
	chosenOnly bool
	name       string
	chains     *chains
	calls      *calls
}

var (
	_ informer.Observer  = observer{}
	_ reflector.Observer = observer{}
)

// Listed implements [reflector.Observer].
func (o observer) Listed(list reflector.ListDone) {
	_, span := o.tracer.Start(context.Background(), "list "+o.name, trace.WithTimestamp(list.Began),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("kubereflector.informer", o.name),
			attribute.Int("kubereflector.objects", list.Objects),
			attribute.Bool("kubereflector.streamed", list.Streamed)))
	fail(span, list.Err)
	span.End(trace.WithTimestamp(list.Began.Add(list.Took)))
}

// Watched implements [reflector.Observer].
func (o observer) Watched(watch reflector.WatchDone) {
	_, span := o.tracer.Start(context.Background(), "watch "+o.name, trace.WithTimestamp(watch.Began),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("kubereflector.informer", o.name),
			attribute.Int("kubereflector.events", watch.Events)))
	fail(span, watch.Err)
	span.End(trace.WithTimestamp(watch.Began.Add(watch.Lasted)))
}

// Queues implements [informer.Observer]. Traces need no queues, but the time of the subscription.
func (o observer) Queues(_, subscription string) func(eventqueue.TakeInfo) {
	o.calls.begin(subscription)
	return nil
}

// Handling implements [informer.Observer].
func (o observer) Handling(ctx context.Context, call informer.Handling) (context.Context, func(error)) {
	of, first := o.chains.of(call)
	if of.commit.IsValid() && of.at.Before(o.calls.of(call.Subscription).since) {
		of, first = chain{}, false // the handler did not wait since the change
	}
	if o.chosenOnly && !of.commit.IsValid() {
		return ctx, nil
	}
	named := o.calls.of(call.Subscription)
	options := named.options
	if of.commit.IsValid() {
		if runs := trace.SpanContextFromContext(ctx); runs.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: runs}))
		}
		ctx = trace.ContextWithSpanContext(ctx, of.commit)
	}
	if first {
		o.queued(ctx, of, call, named)
	}
	ctx, span := o.tracer.Start(ctx, named.handle, options...)
	if span.IsRecording() {
		span.SetAttributes(eventAttributes(call.Key, call.Type, call.Origin)...)
	}
	return ctx, func(err error) {
		fail(span, err)
		span.End()
	}
}

// sendable returns a text of a server as UTF-8: exporters drop a whole batch if one text is not.
func sendable(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// fail records a failure. Errors may quote bytes of a server.
func fail(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	text := err.Error()
	if !utf8.ValidString(text) {
		text = sendable(text)
		err = errors.New(text)
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, text)
}
