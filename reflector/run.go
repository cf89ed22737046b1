package reflector

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
)

// run is one call of Run. It executes the protocol's actions and returns their outcomes to the
// protocol.
type run[T Object] struct {
	*KubernetesResourceReflector[T]

	staging staging[T]       // of the current list
	watch   stream.Items[T]  // the open watch, or nil
	open    context.Context  // of watch, until cancelWatch ends it
	pending []stream.Item[T] // received items that are not handled yet
	items   []stream.Item[T] // the items of the last input: changes, or a single item of any kind
	// batch gathers the writes of items for one commit, and is empty between commits. For a Cache it is its
	// watchBatch (store/batch.go). batching is false for a plain Store, whose adapter of package decorate
	// takes one item at a time.
	batch    store.Batch[T]
	batching bool
	alarm    *time.Timer // fires at due
	due      time.Time   // zero after alarm fired
	// rejections bounds the rate of reported rejections: a server may send thousands of undecodable
	// objects a second. State still has the last rejection.
	rejections flowcontrol.PassiveRateLimiter

	// consistentSince is when the current list was requested, if it is consistent: at the newest
	// version. It is zero for another list.
	consistentSince time.Time

	evidence evidence // of whether the server filters by shard
	sharding Sharding // as in the state

	observing observing
	latest    latest // the object that changed last: a probe asks the server for it
}

// reportBurst is the number of rejections that may be reported at once. After that, the reflector
// may report one more every second.
const reportBurst = 10

// loop runs until ctx ends or a failure is final.
func (r *run[T]) loop(ctx context.Context) error {
	r.alarm = time.NewTimer(0)
	defer r.alarm.Stop()
	r.rejections = flowcontrol.NewTokenBucketPassiveRateLimiter(1, reportBurst)
	r.batch, r.batching = decorate.BeginWatch(r.store)
	version := r.store.ResourceVersion()
	r.staging.to = r.store
	defer r.staging.discard()
	observed := version
	if version == r.status.state.Get().ResourceVersion { // Run is called again
		observed = r.status.observedVersion()
	}
	r.status.stored(version, observed)
	r.learn(objects{}) // the state says who filters, before the first list
	in := protocol.Input{Kind: protocol.Started, Version: version}
	for ctx.Err() == nil || in.Kind == protocol.Stored { // a finished write is still reported to the protocol
		for _, a := range r.step(in) { // the last one has the outcome, which is the next input
			if ctx.Err() != nil && a.Do.Waits() {
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

// stored records what the store made of all changes up to a version.
func (r *run[T]) stored(version string, err error) {
	if err != nil && !protocol.Rejected(err) { // a list follows
		version = r.status.observedVersion()
	}
	r.status.stored(r.store.ResourceVersion(), version)
}

// step is a function of its own so that the copies of the state are not on the stack of a goroutine that
// waits for events: with them the stack of each reflector would be twice as large.
//
//go:noinline
func (r *run[T]) step(in protocol.Input) (todo []protocol.Action) {
	in.At, in.Dice = time.Now(), rand.Float64()
	r.protocol, todo = r.protocol.Step(in)
	return todo
}

// do executes one action. A returned error is final.
func (r *run[T]) do(ctx context.Context, a protocol.Action) (protocol.Input, error) {
	switch a.Do {
	case protocol.AskPage:
		return r.askPage(ctx, a), nil
	case protocol.AskWatch, protocol.AskWatchList:
		return r.askWatch(ctx, a), nil
	case protocol.AskVersion:
		return r.askVersion(ctx), nil
	case protocol.Receive:
		in := r.receive(ctx)
		if r.observing.watch != nil && ctx.Err() == nil {
			r.observe(in)
		}
		return in, nil
	case protocol.Replace:
		return r.replace(a.Version), nil
	case protocol.Apply:
		in := r.apply()
		r.items = nil // handled
		return in, nil
	case protocol.Wait:
		return r.wait(ctx, a)
	case protocol.Delay:
		// A watch, or a probe and a watch, follows; but between two polls the reflector is in step.
		if r.protocol.Polling() {
			r.enterWatching()
		} else {
			r.status.enter(Opening)
		}
		pause(ctx, a.Pause)
		return protocol.Input{Kind: protocol.Elapsed}, nil
	case protocol.Discard:
		r.staging.discard()
		if r.rejected == nil { // else the store may keep another state of that object, as the list may, too
			r.staging.last = r.latest
		}
	case protocol.Stage:
		for i := range r.items {
			r.staging.take(&r.items[i])
		}
	case protocol.StopWatch:
		if a.Err != nil && r.observing.ended == nil { // a watch keeps an error of its own
			r.observing.ended = r.wrap(a)
		}
		r.closeWatch()
	case protocol.MarkSynced:
		decorate.Resumed(r.store)
		if r.status.synced.Set() {
			r.logger.Info("synced", zap.String("resourceVersion", r.store.ResourceVersion()))
			r.status.set(func(*State) {}) // for those who follow the state to see what is synced
		}
	case protocol.Report:
		r.report(ctx, r.wrap(a))
	case protocol.WatchListsOff:
		err := r.wrap(a)
		if r.status.state.Get().WatchListErr == nil {
			r.logger.Warn("watch-lists do not work, lists are used instead", zap.Duration("tryAgainIn", protocol.RestTime), zap.Error(err))
		}
		r.status.set(func(s *State) { s.WatchListErr = err })
	case protocol.WatchListsBack:
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

// wait reports a failure and waits for the next attempt, unless the failure is final. It discards
// the current list, because no list goes on after a failure and the wait may take minutes.
func (r *run[T]) wait(ctx context.Context, a protocol.Action) (protocol.Input, error) {
	r.staging.discard()
	err := r.wrap(a)
	r.observing.endList(0, err) // unless failed has ended it: the protocol itself gives up an endless list
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
			fields = append(fields, zap.String("key", cut.Text(failure.Key.String(), cut.MaxName)))
		}
		if failure.ResourceVersion != "" {
			version = cut.Text(failure.ResourceVersion, stream.MaxVersion)
		}
	}
	r.logger.Warn("reflecting failed", append(fields, zap.String("resourceVersion", version))...)
	lifecycle.HandleError(ctx, r.logger, r.errorHandler, err)
}

// failed returns the input for a failed request, or for a list that the store ended. No list goes on
// after a failure.
func (r *run[T]) failed(ctx context.Context, op protocol.Op, version string, err error) protocol.Input {
	failure := r.newError(op, version, err)
	r.staging.discard()
	if ctx.Err() == nil {
		// Otherwise Run has ended. The error alone does not show that, because a request that the
		// reflector aborts for another reason is cancelled as well.
		r.observing.endList(0, failure)
	}
	return protocol.Input{Kind: protocol.Failed, Err: failure}
}

// withCause returns a ProtocolError if the server did not answer in time, and err otherwise.
func withCause(ctx context.Context, err error) error {
	if context.Cause(ctx) == protocol.NoAnswer {
		return &ProtocolError{Reason: string(protocol.NoAnswer), Err: err}
	}
	return err
}

// enter sets the phase for a request. Between polls, which begin and end every few seconds, the phase
// stays Polling.
func (r *run[T]) enter(phase Phase) {
	if !r.protocol.Polling() || r.status.state.Get().Phase != Polling {
		r.status.enter(phase)
	}
}

// enterWatching sets the phase to Watching or Polling. The error of rejected objects stays in the state.
func (r *run[T]) enterWatching() {
	phase := Watching
	if r.protocol.Polling() {
		phase = Polling
	}
	before := r.status.state.Get()
	if phase == Polling && before.Phase == Polling && before.Err == r.rejected {
		return
	}
	if phase == Polling && before.Phase != Polling {
		r.logger.Info("polling: no versions", zap.Duration("atLeastEvery", protocol.PollInterval))
	}
	failed := before.Err != nil
	r.status.set(func(s *State) { s.Phase, s.Err, s.Attempt, s.NextRetry = phase, r.rejected, 0, time.Time{} })
	if failed && r.rejected == nil {
		r.logger.Info("well again", zap.String("resourceVersion", r.store.ResourceVersion()))
	}
}

func (r *run[T]) listOptions() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: r.labelSelector, FieldSelector: r.fieldSelector, ShardSelector: r.shardSelector()}
}
