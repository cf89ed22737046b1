package reflector

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// minWatch and maxWatch bound the timeout of a watch request. The reflector draws the timeout at
// random, so that watches that began together after a server's restart end at different times.
const (
	minWatch = maxWatch / 2
	maxWatch = protocol.MaxWatch
)

// askWatch requests a watch, or a watch-list.
func (r *run[T]) askWatch(ctx context.Context, a protocol.Action) protocol.Input {
	if a.Do == protocol.AskWatchList {
		r.evidence.reset() // before listOptions, which asks again for the shard then
	}
	opts := r.listOptions()
	opts.ResourceVersion = a.Version
	opts.AllowWatchBookmarks = true
	timeout := int64((minWatch + rand.N(maxWatch-minWatch)).Seconds())
	opts.TimeoutSeconds = &timeout
	until := time.Now().Add(time.Duration(timeout) * time.Second)
	wanted := stream.Wants[T]{Shards: r.shards}
	if a.Do == protocol.AskWatchList {
		r.observing.beginWatchList(r.name)
		r.noteConsistent(a)
		wanted.Holds = r.holds()
		all := true
		opts.SendInitialEvents = &all
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		r.enter(Listing)
	} else {
		r.enter(Opening)
	}
	limited, cancel := context.WithCancelCause(ctx)
	unanswered := time.AfterFunc(openTimeout, func() { cancel(protocol.NoAnswer) })
	open, err := r.source.Watch(limited, opts, wanted)
	if r.refusesShards(&opts, err) {
		open, err = r.source.Watch(limited, opts, wanted)
	}
	if !unanswered.Stop() && err == nil { // the answer came as the time ran out, and the watch ends with limited
		cancel(protocol.NoAnswer) // perhaps before the timer's goroutine did
		err = errors.Join(limited.Err(), open.Close())
	}
	if err != nil {
		cancel(nil)
		return r.failed(ctx, r.protocol.Op(), a.Version, withCause(limited, err))
	}
	r.watch, r.open = open, limited
	r.cancelWatch.Store(&cancel)
	r.observing.beginWatch(r.name)
	r.status.contact()
	r.logger.Debug("watching", zap.String("resourceVersion", a.Version), zap.Bool("initialEvents", a.Do == protocol.AskWatchList))
	if a.Do == protocol.AskWatch && !r.protocol.Doubtful() {
		r.enterWatching()
	}
	return protocol.Input{Kind: protocol.Accepted, Lasts: time.Until(until)}
}

// receive waits for an item, for the end of the watch, or for the alarm.
func (r *run[T]) receive(ctx context.Context) protocol.Input {
	if r.staging.endedBy != nil {
		return r.failed(ctx, protocol.OpStore, r.protocol.Position(), r.staging.endedBy)
	}
	for ctx.Err() == nil {
		if len(r.pending) > 0 {
			return r.takePending()
		}
		if due := r.protocol.Alarm(); due != r.due { // it seldom changes
			r.due = due
			r.alarm.Reset(time.Until(due))
		}
		items, err := r.watch.Next(r.open, r.alarm.C)
		switch expired := context.Cause(r.open); {
		case expired != nil: // the server told CatchUp so; or ctx has ended, and loop does not pass this on
			return protocol.Input{Kind: protocol.Failed, Err: r.newError(r.protocol.Op(), r.protocol.Position(), expired)}
		case err == stream.ErrAwake:
			r.due = time.Time{}
			return protocol.Input{Kind: protocol.Elapsed}
		case err == io.EOF:
			return protocol.Input{Kind: protocol.Ended}
		case err == nil:
			if !saysOnlyThatConnectionBroke(items) {
				r.status.contact()
			}
			if r.shards != nil {
				for i := range items {
					items[i].Filter(r.shards)
				}
			}
			r.pending = items
		}
	}
	return protocol.Input{} // loop does not pass it on, as ctx has ended
}

// saysOnlyThatConnectionBroke reports whether items come from the client and not from the server: a Resource
// says Ended, and client-go that it could not read an event.
func saysOnlyThatConnectionBroke[T Object](items []stream.Item[T]) bool {
	if len(items) == 0 {
		return false
	}
	first := &items[0]
	return first.Kind == stream.Ended || first.Kind == stream.Failed && protocol.Classify(first.Err) == protocol.Unreadable
}

// takePending takes the pending changes up to the first item of another kind, or that item alone.
// A store without batches of its own receives changes one by one.
func (r *run[T]) takePending() protocol.Input {
	in := protocol.Input{Kind: protocol.Changed}
	n := 0
	for ; n < len(r.pending) && r.pending[n].IsAboutObjects() && (n == 0 || r.batching); n++ {
		item := &r.pending[n]
		if item.Version != "" {
			in.Version = item.Version
		}
		in.Added = in.Added || item.Write.Type == store.Addition
		in.Changes += max(len(item.Keys), item.Count, 1)
		if r.shards != nil {
			r.learnItem(item)
		}
	}
	if n > 0 {
		r.items, r.pending = r.pending[:n], r.pending[n:]
		return in
	}
	r.items, r.pending = r.pending[:1], r.pending[1:]
	item := &r.items[0]
	if item.Kind == stream.Mark {
		return protocol.Input{Kind: protocol.Marked, Version: item.Version, Closing: item.Closing}
	}
	failure := r.newError(r.protocol.Op(), r.protocol.Position(), item.Err)
	if item.Kind == stream.Ended {
		return protocol.Input{Kind: protocol.Ended, Err: failure}
	}
	if failure.Key == (store.Key{}) {
		failure.Key = item.Write.Key
	}
	return protocol.Input{Kind: protocol.Failed, Err: failure}
}

// apply writes the last items to the store, in one commit.
func (r *run[T]) apply() protocol.Input {
	bookmark := "" // the version of an item after the last write
	var last *stream.Item[T]
	for i := range r.items {
		item := &r.items[i]
		if item.IsWrite() {
			_ = r.batch.Write(item.Write) // Commit returns the error
			bookmark, last = "", item
		} else if item.Version != "" {
			bookmark = item.Version
		}
	}
	var err error
	switch {
	case last != nil:
		err = r.batch.Commit(bookmark)
	case bookmark != "":
		err = r.store.Bookmark(bookmark)
	}
	r.stored(r.protocol.Position(), err)
	var key store.Key
	if last != nil {
		var version store.Version
		key, version = last.Identity()
		r.latest.set(key, version, last.Kind == stream.Delete)
	}
	if err == nil {
		return protocol.Input{Kind: protocol.Stored}
	}
	failure := r.newError(protocol.OpStore, r.items[len(r.items)-1].Version, err)
	if len(r.items) == 1 && failure.Key == (store.Key{}) && key.Name != "" {
		failure.Key = key
	}
	return protocol.Input{Kind: protocol.Stored, Err: failure}
}

// observe counts the last items for the observers.
func (r *run[T]) observe(in protocol.Input) {
	switch in.Kind {
	case protocol.Failed, protocol.Ended:
		r.observing.ended = in.Err
	case protocol.Changed, protocol.Marked:
		for i := range r.items {
			r.observing.watch.Events += max(len(r.items[i].Keys), r.items[i].Count, 1)
		}
	}
}

// closeWatch ends the watch and waits for its end.
func (r *run[T]) closeWatch() {
	r.pending, r.items = nil, nil
	if r.watch == nil {
		return
	}
	(*r.cancelWatch.Swap(nil))(nil)
	r.observing.endWatch()
	if err := r.watch.Close(); err != nil {
		r.logger.Error("watch may leak a goroutine", zap.String("resourceVersion", r.store.ResourceVersion()), zap.Error(err))
	}
	r.watch = nil
}
