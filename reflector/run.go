package reflector

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// closeTimeout is how long the reflector waits for a watch to close its channel after Stop.
const closeTimeout = 5 * time.Second

// run is one call of Run. It executes the protocol's actions and returns their outcomes to the
// protocol.
type run[T Object] struct {
	*KubernetesResourceReflector[T]

	page    page[T]    // the last received page
	staging staging[T] // of the current list
	feed    feed[T]    // the open watch
	pending []event[T] // received events that are not handled yet
	events  []event[T] // the events of the last input: changes, or a single event of any type
	one     [1]event[T]
	batch   store.Batch[T] // of events; empty between commits
	own     bool           // the store is a BatchStore
	alarm   alarm
	// lackReports bounds the reports of rejected objects.
	lackReports reportRate

	evidence evidence // of whether the server filters by shard
	sharding Sharding // as in the state

	observing observing
	recording recording[T]
	witness   witness
}

// loop runs until ctx ends or a failure is final.
func (r *run[T]) loop(ctx context.Context) error {
	r.batch, r.own = store.Begin(r.store, false)
	version := r.store.ResourceVersion()
	r.staging.to = r.store
	defer r.staging.discard()
	r.status.stored(version)
	r.learn(0, 0)
	in := input{kind: started, version: version}
	for ctx.Err() == nil || in.kind == stored {
		in.at, in.dice = time.Now(), rand.Float64()
		var todo []action
		r.protocol, todo = step(r.protocol, in)
		r.observing.decided(todo, r.wrap)
		for _, a := range todo {
			if ctx.Err() != nil && (a.do <= receive || a.do == wait || a.do == delay) {
				return nil
			}
			var err error
			if in, err = r.do(ctx, a); err != nil {
				return err
			}
			r.tellRecording(ctx)
		}
	}
	return nil
}

// do executes one action. A returned error is final.
func (r *run[T]) do(ctx context.Context, a action) (input, error) {
	switch a.do {
	case askPage:
		return r.askPage(ctx, a), nil
	case askWatch, askStream:
		return r.askWatch(ctx, a), nil
	case receive:
		in := r.receive(ctx)
		if r.observing.watching && ctx.Err() == nil {
			received(&r.observing, in, r.events)
		}
		return in, nil
	case replace:
		return r.replace(a.version), nil
	case apply:
		return r.apply(), nil
	case wait:
		return r.wait(ctx, a)
	case delay:
		r.opens()
		pause(ctx, a.pause)
		return input{kind: elapsed}, nil
	case discard:
		r.staging.discard()
	case keep:
		r.staging.keep(r.page)
		r.page = page[T]{}
	case stage:
		for i := range r.events {
			r.staging.take(&r.events[i])
		}
	case stopWatch:
		r.close()
	case latch:
		if s, ok := r.store.(store.Resumer); ok {
			s.Resumed()
		}
		if r.status.latchSynced() {
			r.logger.Info("synced", zap.String("resourceVersion", r.store.ResourceVersion()))
		}
	case report:
		r.report(ctx, r.wrap(a))
	case streamsOff:
		r.streamsOff(r.wrap(a))
	case streamsBack:
		r.status.set(func(s *State) { s.WatchListErr = nil })
	case reportLack:
		r.lacking = a.err
		if r.lackReports.due(time.Now()) {
			r.report(ctx, a.err)
		}
		r.status.set(func(s *State) { s.Err = a.err })
	}
	return input{}, nil
}

// receive waits for an event, for the end of the watch, or for the alarm.
func (r *run[T]) receive(ctx context.Context) input {
	if r.staging.over != nil {
		return r.endList(ctx, r.protocol.position)
	}
	for ctx.Err() == nil {
		if len(r.pending) > 0 {
			return r.takePending()
		}
		select {
		case <-ctx.Done():
		case <-r.alarm.at(r.protocol.alarm()):
			r.alarm.rang()
			if !time.Now().Before(r.protocol.alarm()) {
				return input{kind: elapsed}
			}
		case event, open := <-r.feed.events():
			if !open {
				r.recording.happened(frameEnded)
				return input{kind: ended}
			}
			if several, ok := event.Object.(carriedTogether[T]); ok {
				for i := range several.events {
					siftEvent(r.shards, &several.events[i])
				}
				r.status.contact()
				r.pending = several.events
				continue
			}
			e := readEvent[T](event)
			if !e.cut && !undecoded(e.err) {
				r.status.contact() // otherwise the connection failed
			}
			siftEvent(r.shards, &e)
			return r.take(e)
		case part, open := <-r.feed.parts():
			if !open {
				return r.endOfStream()
			}
			r.status.contact()
			if part.wait(ctx.Done()) {
				r.pending = part.result
			}
		}
	}
	return input{}
}

// endOfStream returns the input for the end of the stream.
func (r *run[T]) endOfStream() input {
	e := event[T]{err: r.feed.stream.err, cut: !r.feed.stream.unreadable()}
	if e.err == nil {
		r.recording.happened(frameEnded)
		return input{kind: ended}
	}
	return r.take(e)
}

// replace commits the staged list to the store.
func (r *run[T]) replace(version string) input {
	r.feed.complete()
	objects := r.staging.size
	err := r.staging.commit(version)
	r.witness = r.staging.newest
	r.staging.discard()
	r.status.stored(r.store.ResourceVersion())
	verdict := judge(err)
	if r.feed.open() && verdict != broken {
		defer r.watches()
	}
	if verdict == took {
		r.lacking = nil
	}
	if err == nil {
		r.observing.endList(objects, nil)
		return input{kind: stored}
	}
	err = r.newError(OpStore, version, err)
	r.observing.endList(objects, err)
	return input{kind: stored, err: err}
}

// wait reports a failure and waits for the next attempt, unless the failure is final. It discards
// the current list, because no list goes on after a failure and the wait may take minutes.
func (r *run[T]) wait(ctx context.Context, a action) (input, error) {
	r.staging.discard()
	r.page = page[T]{}
	err := r.wrap(a)
	if !r.retry(err) {
		r.status.set(func(s *State) { s.Err = err })
		return input{}, err
	}
	r.report(ctx, err)
	r.status.set(func(s *State) {
		s.Phase, s.Err, s.Attempt, s.RetryAt = Waiting, err, a.attempt, time.Now().Add(a.pause)
	})
	pause(ctx, a.pause)
	return input{kind: elapsed}, nil
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

// streamsOff records the reason why the reflector lists instead of requesting watch-lists. It logs
// the first reason.
func (r *run[T]) streamsOff(err error) {
	if r.status.get().WatchListErr == nil {
		r.logger.Warn("watch-lists do not work, lists are used instead", zap.Duration("tryAgainIn", streamsRest), zap.Error(err))
	}
	r.status.set(func(s *State) { s.WatchListErr = err })
}

// wrap returns the error of an action as an [*Error]. Errors that the protocol created are not
// wrapped yet.
func (r *run[T]) wrap(a action) error {
	var failure *Error
	if errors.As(a.err, &failure) {
		return a.err
	}
	return r.newError(a.op, r.protocol.position, a.err)
}

// report logs a handled failure and calls the error hook.
func (r *run[T]) report(ctx context.Context, err error) {
	fields := []zap.Field{zap.Error(err)}
	version := r.store.ResourceVersion()
	if failure, ok := errors.AsType[*Error](err); ok {
		if failure.Key != (store.Key{}) {
			fields = append(fields, zap.String("key", cut(failure.Key.String(), maxName)))
		}
		if failure.ResourceVersion != "" {
			version = cut(failure.ResourceVersion, maxVersion)
		}
	}
	r.logger.Warn("reflecting failed", append(fields, zap.String("resourceVersion", version))...)
	r.tellHook(ctx, err)
}

// tellHook calls the error hook. A panic in the hook must not end the reflector.
func (r *run[T]) tellHook(ctx context.Context, err error) {
	defer func() {
		if value := recover(); value != nil {
			r.logger.Error("error hook panicked", zap.Any("panic", value), zap.Stack("stack"))
		}
	}()
	r.errorHook(ctx, err)
}

// close ends the watch and waits until the client closes its channel, as watch.Interface requires
// after Stop. apimachinery's ProxyWatcher does not close the channel; close stops waiting after
// closeTimeout.
func (r *run[T]) close() {
	r.alarm.stop()
	r.pending, r.events = nil, nil
	if !r.feed.open() {
		return
	}
	r.feed.stop()
	r.recording.happened(frameClosed)
	r.observing.endWatch()
	defer func() { r.feed = feed[T]{} }()
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	for {
		select {
		case _, open := <-r.feed.events():
			if !open {
				return
			}
		case _, open := <-r.feed.parts():
			if !open {
				return
			}
		case <-timeout.C:
			r.logger.Error("the client's watch did not close its channel after Stop: it may leak a goroutine", zap.String("resourceVersion", r.store.ResourceVersion()))
			return
		}
	}
}
