package reflector

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// closeTimeout is how long a watch may take to end after it was told to.
const closeTimeout = 5 * time.Second

// run is one call of Run: it does what the protocol says, and tells it what came of
// it.
type run[T Object] struct {
	*KubernetesResourceReflector[T]

	page    page[T]    // the last one that came
	staging staging[T] // of the list that is under way
	feed    feed[T]    // that is open
	pending []event[T] // that came and were not taken yet
	events  []event[T] // that were taken last: changes, or one of anything
	one     [1]event[T]
	batch   store.Batch[T] // of events; empty between commits
	own     bool           // the store has batches of its own
	alarm   alarm
	// lackReports bounds the reports of objects that could not be stored.
	lackReports reportRate

	evidence evidence // of who selects the shards
	sharding Sharding // as the state says

	observing observing
	recording recording[T]
	witness   witness
}

// loop runs until ctx ends or something is final.
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

// do does one thing. The error is final.
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
				r.status.contact() // else the client says that nothing came
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

// endOfStream says why the server sends no more.
func (r *run[T]) endOfStream() input {
	e := event[T]{err: r.feed.stream.err, cut: !r.feed.stream.unreadable()}
	if e.err == nil {
		r.recording.happened(frameEnded)
		return input{kind: ended}
	}
	return r.take(e)
}

// replace gives the store what is staged.
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

// wait reports a failure and waits until it is tried again, unless it is final. No list goes on
// after it, and it may take minutes.
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

// streamsOff notes why lists are asked for instead of watch-lists. It is logged once.
func (r *run[T]) streamsOff(err error) {
	if r.status.get().WatchListErr == nil {
		r.logger.Warn("watch-lists do not work, lists are used instead", zap.Duration("tryAgainIn", streamsRest), zap.Error(err))
	}
	r.status.set(func(s *State) { s.WatchListErr = err })
}

// wrap returns the error of an action with all that a person needs. Most have it; those
// that the protocol found by itself do not.
func (r *run[T]) wrap(a action) error {
	var failure *Error
	if errors.As(a.err, &failure) {
		return a.err
	}
	return r.newError(a.op, r.protocol.position, a.err)
}

// report tells of something that went wrong and is dealt with.
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

// tellHook calls the error hook. A panic there must not end the reflector.
func (r *run[T]) tellHook(ctx context.Context, err error) {
	defer func() {
		if value := recover(); value != nil {
			r.logger.Error("error hook panicked", zap.Any("panic", value), zap.Stack("stack"))
		}
	}()
	r.errorHook(ctx, err)
}

// close ends the watch and waits for what produces its events: the contract of
// watch.Interface is that the channel is closed after Stop. One that breaks it, as
// apimachinery's ProxyWatcher does, is given up.
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
