package reflector

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"go.uber.org/zap"
	"k8s.io/client-go/util/flowcontrol"
)

// run is one call of Run. It executes the protocol's actions and returns their outcomes to the
// protocol.
type run[T Object] struct {
	*KubernetesResourceReflector[T]

	page    source.Page[T]   // the last received page
	staging staging[T]       // of the current list
	stream  source.Stream[T] // the open watch, or nil
	// cancelWatch ends the context of stream.
	cancelWatch context.CancelCauseFunc
	pending     []source.Event[T] // received events that are not handled yet
	events      []source.Event[T] // the events of the last input: changes, or a single event of any type
	batch       store.Batch[T]    // of events; empty between commits
	batching    bool              // the store is a BatchStore
	alarm       *time.Timer       // fires at due
	due         time.Time         // zero after alarm fired
	// rejections bounds the rate of reported rejections: a server may send thousands of undecodable
	// objects a second. State still has the last rejection.
	rejections flowcontrol.PassiveRateLimiter

	// asked is when the current list was requested, if it is consistent: at the newest version.
	asked time.Time

	evidence evidence // of whether the server filters by shard
	sharding Sharding // as in the state

	observing observing
	witness   witness
}

// reportBurst is the number of rejections that may be reported at once. After that, the reflector
// may report one more every second.
const reportBurst = 10

// loop runs until ctx ends or a failure is final.
func (r *run[T]) loop(ctx context.Context) error {
	r.alarm = time.NewTimer(0)
	defer r.alarm.Stop()
	r.rejections = flowcontrol.NewTokenBucketPassiveRateLimiter(1, reportBurst)
	r.batch, r.batching = decorate.Begin(r.store, false)
	version := r.store.ResourceVersion()
	r.staging.to = r.store
	defer r.staging.discard()
	r.status.stored(version)
	r.learn(0, 0)
	in := protocol.Input{Kind: protocol.Started, Version: version}
	for ctx.Err() == nil || in.Kind == protocol.Stored {
		in.At, in.Dice = time.Now(), rand.Float64()
		var todo []protocol.Action
		r.protocol, todo = r.protocol.Step(in)
		for _, a := range todo {
			if ctx.Err() != nil && (a.Do <= protocol.Receive || a.Do == protocol.Wait || a.Do == protocol.Delay) {
				return nil
			}
			var err error
			if in, err = r.do(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// do executes one action. A returned error is final.
func (r *run[T]) do(ctx context.Context, a protocol.Action) (protocol.Input, error) {
	switch a.Do {
	case protocol.AskPage:
		return r.askPage(ctx, a), nil
	case protocol.AskWatch, protocol.AskStream:
		return r.askWatch(ctx, a), nil
	case protocol.AskVersion:
		return r.askVersion(ctx), nil
	case protocol.Receive:
		in := r.receive(ctx)
		if r.observing.watch != nil && ctx.Err() == nil {
			received(&r.observing, in, r.events)
		}
		return in, nil
	case protocol.Replace:
		return r.replace(a.Version), nil
	case protocol.Apply:
		in := r.apply()
		r.events = nil // handled
		return in, nil
	case protocol.Wait:
		return r.wait(ctx, a)
	case protocol.Delay:
		if r.protocol.Polling() {
			r.watches()
		} else {
			r.status.enter(Opening)
		}
		pause(ctx, a.Pause)
		return protocol.Input{Kind: protocol.Elapsed}, nil
	case protocol.Discard:
		r.staging.discard()
	case protocol.Keep:
		r.staging.keep(r.page)
		r.page = source.Page[T]{}
	case protocol.Stage:
		for i := range r.events {
			r.staging.take(&r.events[i])
		}
	case protocol.StopWatch:
		if a.Err != nil && r.observing.ended == nil { // a watch keeps an error of its own
			r.observing.ended = r.wrap(a)
		}
		r.close()
	case protocol.Latch:
		decorate.Resumed(r.store)
		if r.status.latchSynced() {
			r.logger.Info("synced", zap.String("resourceVersion", r.store.ResourceVersion()))
		}
	case protocol.Report:
		r.report(ctx, r.wrap(a))
	case protocol.StreamsOff:
		err := r.wrap(a)
		if r.status.get().WatchListErr == nil {
			r.logger.Warn("watch-lists do not work, lists are used instead", zap.Duration("tryAgainIn", protocol.StreamsRest), zap.Error(err))
		}
		r.status.set(func(s *State) { s.WatchListErr = err })
	case protocol.StreamsBack:
		r.status.set(func(s *State) { s.WatchListErr = nil })
	case protocol.ReportRejected:
		r.rejected = a.Err
		if r.rejections.TryAccept() {
			r.report(ctx, a.Err)
		}
		r.status.set(func(s *State) { s.fail(a.Err) })
	}
	return protocol.Input{}, nil
}

// replace commits the staged list to the store.
func (r *run[T]) replace(version string) protocol.Input {
	if r.stream != nil {
		r.stream.Live()
	}
	objects := r.staging.size
	err := r.staging.commit(version)
	r.witness = r.staging.newest
	r.staging.discard()
	r.status.stored(r.store.ResourceVersion())
	if err == nil || protocol.Rejected(err) {
		r.status.current(r.asked)
	}
	if r.stream != nil && (err == nil || protocol.Rejected(err)) {
		defer r.watches()
	}
	if err == nil {
		r.rejected = nil
	} else {
		err = r.newError(protocol.OpStore, version, err)
	}
	r.observing.endList(objects, err)
	r.events = nil // handled
	return protocol.Input{Kind: protocol.Stored, Err: err}
}

// wait reports a failure and waits for the next attempt, unless the failure is final. It discards
// the current list, because no list goes on after a failure and the wait may take minutes.
func (r *run[T]) wait(ctx context.Context, a protocol.Action) (protocol.Input, error) {
	r.staging.discard()
	r.page = source.Page[T]{}
	err := r.wrap(a)
	r.observing.endList(0, err) // if the protocol aborts it
	if !a.Passing && !r.retry(err) {
		r.status.set(func(s *State) { s.fail(err) })
		return protocol.Input{}, err
	}
	r.report(ctx, err)
	r.status.set(func(s *State) {
		s.fail(err)
		s.Phase, s.Attempt, s.NextRetry = BackingOff, a.Attempt, time.Now().Add(a.Pause)
	})
	pause(ctx, a.Pause)
	return protocol.Input{Kind: protocol.Elapsed}, nil
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// wrap returns the error of an action as an [*Error]. Errors that the protocol created are not
// wrapped yet.
func (r *run[T]) wrap(a protocol.Action) error {
	var failure *Error
	if errors.As(a.Err, &failure) {
		return a.Err
	}
	return r.newError(a.Op, r.protocol.Position(), a.Err)
}

// report logs a handled failure and calls the error handler.
func (r *KubernetesResourceReflector[T]) report(ctx context.Context, err error) {
	fields := []zap.Field{zap.Error(err)}
	version := r.store.ResourceVersion()
	if failure, ok := errors.AsType[*Error](err); ok {
		if failure.Key != (store.Key{}) {
			fields = append(fields, zap.String("key", stream.Cut(failure.Key.String(), stream.MaxName)))
		}
		if failure.ResourceVersion != "" {
			version = stream.Cut(failure.ResourceVersion, stream.MaxVersion)
		}
	}
	r.logger.Warn("reflecting failed", append(fields, zap.String("resourceVersion", version))...)
	defer func() {
		// A panic in the error handler must not end the reflector.
		if value := recover(); value != nil {
			r.logger.Error("error handler panicked", zap.Any("panic", value), zap.Stack("stack"))
		}
	}()
	r.errorHandler(ctx, err)
}

// close ends the watch and waits for its end.
func (r *run[T]) close() {
	unhandled := len(r.events) + len(r.pending)
	r.pending, r.events = nil, nil
	if r.stream == nil {
		return
	}
	if s, ok := r.stream.(source.Accounting); ok {
		s.Unhandled(unhandled)
	}
	r.cancelWatch(nil)
	r.observing.endWatch()
	if err := r.stream.Close(); err != nil {
		r.logger.Error("watch may leak a goroutine", zap.String("resourceVersion", r.store.ResourceVersion()), zap.Error(err))
	}
	r.stream = nil
}
