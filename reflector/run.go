package reflector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// minWatch is the least time after which the server is asked to end a watch, and
// maxWatch the most. The time is drawn at random, so that the watches that began
// together when a server came up do not end together.
const (
	minWatch = 5 * time.Minute
	maxWatch = 2 * minWatch
)

// answerTimeout is how long the answer to a list, or the beginning of one to a watch, may
// take: much longer than the minute that API servers give themselves.
const answerTimeout = 10 * time.Minute

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
	// batches is the store, if it takes batches.
	batches store.BatchStore[T]
	batch   store.Batch[T] // empty, with the memory of the last one
	alarm   alarm

	evidence evidence // of who selects the shards
	sharding Sharding // as the state says

	observing observing
	recording recording[T]
}

// loop runs until ctx ends or something is final.
func (r *run[T]) loop(ctx context.Context) error {
	if own, ok := r.store.(store.BatchStore[T]); ok && own.Itself() == r.store {
		r.batches = own
	}
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
			if ctx.Err() != nil && (a.do <= receive || a.do == wait) {
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
	case discard:
		r.staging.discard()
	case keep:
		r.staging.keep(r.page)
		r.page = page[T]{}
	case stage:
		for _, e := range r.events {
			r.staging.take(e)
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
	case reportLack:
		r.lacking = a.err
		r.report(ctx, a.err)
		r.status.set(func(s *State) { s.Err = a.err })
	}
	return input{}, nil
}

func (r *run[T]) askPage(ctx context.Context, a action) input {
	if a.next == "" {
		r.status.set(func(s *State) { s.Phase, s.Attempt, s.RetryAt = Listing, 0, time.Time{} })
	}
	if a.next == "" && r.protocol.phase != probing {
		r.observing.beginList(r.name, false)
	}
	probing := r.protocol.phase == probing
	if a.next == "" && !probing {
		r.evidence.anew()
	}
	opts := r.listOptions()
	opts.Limit, opts.ResourceVersion, opts.Continue = a.limit, a.version, a.next
	if a.version != "" && a.version != "0" {
		// Said aloud: with a limit, the server otherwise takes a version for the
		// very one that is wanted, and answers with a state from which nobody can
		// watch any more.
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	limited, cancel := context.WithTimeoutCause(ctx, answerTimeout, ErrNoAnswer)
	defer cancel()
	if probing {
		opts.ShardSelector = ""
		limited = context.WithValue(limited, probeKey{}, true) // for a Replay
	}
	r.recording.asked(frame{Kind: frameList, Options: &opts, Probe: probing})
	wanted := wants[T]{holds: r.holds(), shards: r.shards}
	before := r.staging.put
	if !probing && !r.recording.active() {
		wanted.take = func(object T) { r.staging.add(object) }
	}
	p, err := r.source.list(limited, opts, wanted)
	if r.refusesShards(&opts, err) {
		r.staging.shrink(before)
		p, err = r.source.list(limited, opts, wanted)
	}
	if err == nil && !probing {
		err = r.learnPage(&p)
	}
	if err != nil {
		r.staging.discard() // no list goes on after a failure
		err = withCause(limited, err)
		r.recording.failed(ctx, err)
		err = r.newError(OpList, a.version, err)
		r.observing.failList(ctx, err)
		return input{kind: failed, err: err}
	}
	r.status.contact()
	r.logger.Debug("listed", zap.Int("objects", len(p.items)+p.passed), zap.String("resourceVersion", p.resourceVersion))
	r.recording.page(p)
	r.page = p
	return input{kind: answered, version: p.resourceVersion, next: p.next}
}

func (r *run[T]) askWatch(ctx context.Context, a action) input {
	opts := r.listOptions()
	opts.ResourceVersion = a.version
	opts.AllowWatchBookmarks = true
	timeout := int64((minWatch + rand.N(maxWatch-minWatch)).Seconds())
	opts.TimeoutSeconds = &timeout
	phase := Watching
	wanted := wants[T]{shards: r.shards, sharding: r.sharding}
	if a.do == askStream {
		wanted.sharding = ShardingUnknown
		phase = Listing
		r.evidence.anew()
		opts.ShardSelector = r.shardSelector()
		r.observing.beginList(r.name, true)
		wanted.holds = r.holds()
		all := true
		opts.SendInitialEvents = &all
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		r.status.set(func(s *State) { s.Phase, s.Attempt, s.RetryAt = phase, 0, time.Time{} })
	}
	limited, cancel := context.WithCancelCause(ctx)
	unanswered := time.AfterFunc(answerTimeout, func() { cancel(ErrNoAnswer) })
	r.recording.asked(frame{Kind: frameWatch, Options: &opts})
	f, err := r.source.watch(limited, opts, wanted)
	if r.refusesShards(&opts, err) {
		f, err = r.source.watch(limited, opts, wanted)
	}
	unanswered.Stop()
	if err != nil {
		err = withCause(limited, err)
		r.recording.failed(ctx, err)
		err = r.newError(OpWatch, a.version, err)
		cancel(nil)
		r.observing.failList(ctx, err)
		return input{kind: failed, err: err}
	}
	f.cancel = cancel
	r.feed = f
	r.recording.happened(frameOpened)
	r.observing.beginWatch(r.name)
	r.status.contact()
	r.logger.Debug("watching", zap.String("resourceVersion", a.version), zap.Bool("initialEvents", a.do == askStream))
	if phase == Watching {
		r.watches()
	}
	return input{kind: accepted}
}

// withCause says of an error that it comes from a server that did not answer.
func withCause(ctx context.Context, err error) error {
	if context.Cause(ctx) == ErrNoAnswer {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return err
}

// watches notes that the reflector is in step, but for what the store lacks.
func (r *run[T]) watches() {
	failed := r.status.get().Err != nil
	r.status.set(func(s *State) { s.Phase, s.Err, s.Attempt, s.RetryAt = Watching, r.lacking, 0, time.Time{} })
	if failed && r.lacking == nil {
		r.logger.Info("well again", zap.String("resourceVersion", r.store.ResourceVersion()))
	}
}

// receive waits for an event, for the end of the watch, or for the alarm.
func (r *run[T]) receive(ctx context.Context) input {
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
			r.status.contact()
			if !open {
				r.recording.happened(frameEnded)
				return input{kind: ended}
			}
			if several, ok := event.Object.(carriedTogether[T]); ok {
				for i := range several.events {
					siftEvent(r.shards, &several.events[i])
				}
				r.pending = several.events
				continue
			}
			e := readEvent[T](event)
			siftEvent(r.shards, &e)
			return r.take(e)
		case part, open := <-r.feed.parts():
			r.status.contact()
			if !open {
				return r.endOfStream()
			}
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

// holds returns the question whether an object need not be decoded, for a list that is no
// older than the store. Without that promise the same version may be that of another state:
// a server that was restored from a backup gives versions twice.
func (r *run[T]) holds() holdsFunc {
	if r.batches == nil || r.protocol.unavailable || r.protocol.position == "" || r.recording.active() {
		return nil
	}
	return r.batches.Holds
}

// replace gives the store what is staged.
func (r *run[T]) replace(version string) input {
	r.feed.complete()
	objects := r.staging.size()
	err := r.staging.replace(version)
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

// wait reports a failure and waits until it is tried again, unless it is final.
func (r *run[T]) wait(ctx context.Context, a action) (input, error) {
	err := r.wrap(a)
	if !r.retry(err) {
		r.status.set(func(s *State) { s.Err = err })
		return input{}, err
	}
	r.report(ctx, err)
	r.status.set(func(s *State) {
		s.Phase, s.Err, s.Attempt, s.RetryAt = Waiting, err, a.attempt, time.Now().Add(a.pause)
	})
	timer := time.NewTimer(a.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return input{kind: elapsed}, nil
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
			fields = append(fields, zap.Stringer("key", failure.Key))
		}
		if failure.ResourceVersion != "" {
			version = failure.ResourceVersion
		}
	}
	r.logger.Warn("reflecting failed", append(fields, zap.String("resourceVersion", version))...)
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

func (r *run[T]) listOptions() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: r.labelSelector, FieldSelector: r.fieldSelector, ShardSelector: r.shardSelector()}
}
