package reflector

import (
	"context"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// receive waits for an event, for the end of the watch, or for the alarm.
func (r *run[T]) receive(ctx context.Context) protocol.Input {
	if r.staging.over != nil {
		return r.failed(ctx, protocol.OpStore, r.protocol.Position(), r.staging.over)
	}
	for ctx.Err() == nil {
		if len(r.pending) > 0 {
			return r.takePending()
		}
		events, err := r.stream.Next(ctx, r.wake())
		switch {
		case err == stream.ErrAwake:
			r.due = time.Time{}
			return protocol.Input{Kind: protocol.Elapsed}
		case err == io.EOF:
			return protocol.Input{Kind: protocol.Ended}
		case err == nil:
			if len(events) == 0 || !events[0].Cut && protocol.Classify(events[0].Err) != protocol.Unreadable {
				r.status.contact() // otherwise the connection failed
			}
			for i := range events {
				events[i].Filter(r.shards)
			}
			r.pending = events
		}
	}
	return protocol.Input{}
}

// wake returns a channel that delivers a value at the protocol's alarm, which seldom changes.
func (r *run[T]) wake() <-chan time.Time {
	if due := r.protocol.Alarm(); due != r.due {
		r.due = due
		r.alarm.Reset(time.Until(due))
	}
	return r.alarm.C
}

// takePending takes the pending changes up to the first event of another kind, or that event alone.
// A store without batches of its own receives changes one by one. The objects of one batch that
// could not be decoded result in one joined error.
func (r *run[T]) takePending() protocol.Input {
	n := 0
	for n < len(r.pending) && r.pending[n].IsChange() && (n == 0 || r.batching) {
		n++
	}
	if n == 0 {
		r.events, r.pending = r.pending[:1], r.pending[1:]
		return r.inputOf(&r.events[0])
	}
	r.events, r.pending = r.pending[:n], r.pending[n:]
	in := protocol.Input{Kind: protocol.Changed}
	for i := range r.events {
		e := &r.events[i]
		if e.ResourceVersion != "" {
			in.Version = e.ResourceVersion
		}
		in.Added = in.Added || e.Type == watch.Added
		r.learnEvent(e)
	}
	return in
}

// inputOf converts an event that is no change into an input for the protocol.
func (r *run[T]) inputOf(e *source.Event[T]) protocol.Input {
	if e.Err == nil {
		return protocol.Input{Kind: protocol.Marked, Version: e.ResourceVersion, Closing: e.InitialEventsEnd}
	}
	failure := r.newError(r.protocol.Op(), r.protocol.Position(), e.Err)
	if e.Cut {
		return protocol.Input{Kind: protocol.Ended, Err: failure}
	}
	if failure.Key == (store.Key{}) {
		failure.Key = e.Key
	}
	return protocol.Input{Kind: protocol.Failed, Err: failure}
}
