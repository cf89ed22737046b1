package otel

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Add starts a trace for one in every so many changes of an informer's cache, until stop is called.
// The trace begins with a span of the commit. Below it are the time in the queue of each handler,
// and the handler's calls for that change. The informer must have been made with [Tracing.Options].
// 1 or less traces every change, also of a first list.
//
// Call it before handlers are subscribed: an earlier handler may be called for a change before its
// trace has begun. The span of a commit is made while the cache is written, so the provider must
// not wait for its exporter. The provider's sampler also applies.
//
// Add keeps the last trace of each object, for the latest 1024 objects. A handler that runs after
// its trace was dropped has a separate span. So does a handler that was subscribed after the change,
// and one for an object without a resource version.
func Add[T any](t *Tracing, i *informer.Informer[T], every int) (stop func()) {
	c := t.chainsOf(i.Name())
	unfollow := i.Follow(&follower[T]{tracer: t.tracer, name: i.Name(), every: max(every, 1), to: c})
	c.followers.Add(1)
	var stopped atomic.Bool
	return func() {
		unfollow()
		if stopped.CompareAndSwap(false, true) && c.followers.Add(-1) == 0 {
			c.recent.clear() // the observer still has them
		}
	}
}

// chains are the latest traces of one informer. For each object it keeps the last trace.
type chains struct {
	followers atomic.Int32
	recent    recent[store.Key, chain]
}

// chain is a trace.
type chain struct {
	commit  trace.SpanContext
	at      time.Time
	version string   // of the object
	waited  []string // the subscribers that have got the change
}

// follower starts traces.
type follower[T any] struct {
	tracer trace.Tracer
	name   string
	every  int
	seen   int
	to     *chains
}

// Start implements [store.Follower]. It starts no traces, because the commit times of existing
// objects are unknown.
func (f *follower[T]) Start(*store.Snapshot[T]) {}

// Commit implements [store.Follower].
func (f *follower[T]) Commit(commit *store.Commit[T]) {
	for n := range commit.Changes {
		if f.seen++; f.seen < f.every {
			continue
		}
		f.seen = 0
		change := &commit.Changes[n]
		f.begin(change.Key, change.Version.ResourceVersion, change.Type, commit.Origin)
	}
}

func (f *follower[T]) begin(key store.Key, version string, change store.ChangeType, origin store.Origin) {
	at := time.Now()
	_, span := f.tracer.Start(context.Background(), "commit "+f.name, trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("kubereflector.informer", f.name)))
	if span.IsRecording() {
		span.SetAttributes(eventAttributes(key, change, origin)...)
		if version != "" {
			span.SetAttributes(attribute.String("kubereflector.resource_version", sendable(version)))
		}
	}
	span.End(trace.WithTimestamp(at))
	if of := span.SpanContext(); of.IsSampled() && version != "" {
		f.to.recent.change(key, func(chain) chain { return chain{commit: of, at: at, version: version} })
	}
}

// eventAttributes returns the attributes of an event.
func eventAttributes(key store.Key, change eventqueue.Type, origin eventqueue.Origin) []attribute.KeyValue {
	return append(keyAttributes(key),
		attribute.String("kubereflector.event.type", change.String()),
		attribute.String("kubereflector.event.origin", origin.String()))
}

func keyAttributes(key store.Key) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String("kubereflector.object.name", sendable(key.Name))}
	if key.Namespace != "" {
		all = append(all, attribute.String("k8s.namespace.name", sendable(key.Namespace)))
	}
	if key.Cluster != "" {
		all = append(all, attribute.String("k8s.cluster.name", sendable(key.Cluster)))
	}
	return all
}

// of returns the trace of a change for a call of a handler. first reports whether this is the first
// call of that subscriber.
func (c *chains) of(call informer.Handling) (found chain, first bool) {
	if c.followers.Load() == 0 || call.Origin == eventqueue.Resync || call.ResourceVersion == "" {
		return found, false
	}
	// A concurrent change of this entry has another version.
	if now, ok := c.recent.get(call.Key); !ok || now.version != call.ResourceVersion {
		return found, false
	}
	c.recent.change(call.Key, func(now chain) chain {
		if now.version != call.ResourceVersion {
			return now
		}
		found, first = now, !slices.Contains(now.waited, call.Subscription)
		if first {
			now.waited = append(slices.Clip(now.waited), call.Subscription)
		}
		return now
	})
	return found, first
}

// queued makes a span from a commit to the first call of a handler for it. ctx has the trace of the
// commit.
func (o observer) queued(ctx context.Context, of chain, call informer.Handling, named *named) {
	_, span := o.tracer.Start(ctx, named.queue, trace.WithTimestamp(of.at), named.attributes, trace.WithAttributes(keyAttributes(call.Key)...))
	span.End()
}
