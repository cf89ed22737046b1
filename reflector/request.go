package reflector

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
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

const (
	// answerTimeout is the timeout of a list request. It is much longer than the minute that API
	// servers allow themselves, because transferring the objects takes time.
	answerTimeout = 10 * time.Minute
	// openTimeout is the timeout for opening a watch and for answering a probe.
	openTimeout = 2 * time.Minute
	// versionTimeout is the timeout of the request for the server's version, which delays the first
	// list.
	versionTimeout = 10 * time.Second
)

// askPage requests a page of a list.
func (r *run[T]) askPage(ctx context.Context, a protocol.Action) protocol.Input {
	switch {
	case r.protocol.Probing():
		return r.askProbe(ctx, a)
	case a.Next != "" && r.staging.over != nil:
		return r.failed(ctx, protocol.OpStore, a.Version, r.staging.over)
	case a.Next == "":
		r.enter(Listing)
		r.observing.beginList(r.name, false)
		r.asks(a)
		r.evidence.anew()
	}
	limited, cancel := context.WithTimeoutCause(ctx, answerTimeout, protocol.NoAnswer)
	defer cancel()
	taken := false
	wanted := source.Wants[T]{Shards: r.shards, Holds: r.holds(), Take: func(object T, hash uint64) {
		taken = true
		if r.staging.add(object, hash); r.staging.over != nil {
			cancel() // the store ended the list
		}
	}}
	opts := r.pageOptions(a)
	p, err := r.source.List(limited, opts, wanted)
	if r.refusesShards(&opts, err) && !taken { // else the list fails
		p, err = r.source.List(limited, opts, wanted)
	}
	if err == nil {
		err = r.learnPage(&p)
	}
	if r.staging.over != nil {
		return r.failed(ctx, protocol.OpStore, a.Version, r.staging.over)
	}
	if err != nil {
		return r.failed(ctx, protocol.OpList, a.Version, withCause(limited, err))
	}
	r.status.contact()
	r.logger.Debug("listed", zap.Int("objects", len(p.Items)+p.Taken), zap.String("resourceVersion", p.ResourceVersion))
	r.page = p
	return protocol.Input{Kind: protocol.Answered, Version: p.ResourceVersion, Next: p.Continue}
}

// asks notes whether a list or watch-list will show what the server has now: see CatchUp.
func (r *run[T]) asks(a protocol.Action) {
	r.asked = time.Time{}
	if a.Version == "" {
		r.asked = time.Now()
	}
}

// askProbe requests the object that changed last, at the newest version of the server: see
// reflector-R6.
func (r *run[T]) askProbe(ctx context.Context, a protocol.Action) protocol.Input {
	r.status.enter(Opening)
	limited, cancel := context.WithTimeoutCause(ctx, openTimeout, protocol.NoAnswer)
	defer cancel()
	opts := r.pageOptions(a)
	opts.ShardSelector, opts.FieldSelector = "", r.witness.selector(opts.FieldSelector)
	p, err := r.source.List(limited, opts, source.Wants[T]{Shards: r.shards, Probe: r.contradicted})
	if err != nil {
		return r.failed(ctx, protocol.OpList, a.Version, withCause(limited, err))
	}
	r.status.contact()
	return protocol.Input{Kind: protocol.Answered, Version: p.ResourceVersion, Conflict: r.contradicted(p)}
}

// pageOptions returns the options of the request for a page.
func (r *run[T]) pageOptions(a protocol.Action) metav1.ListOptions {
	opts := r.listOptions()
	opts.Limit, opts.ResourceVersion, opts.Continue = a.Limit, a.Version, a.Next
	if a.Version != "" && a.Version != "0" {
		// Without this, a list with a limit returns the state at exactly this version, and the
		// reflector may not be able to watch from there.
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	return opts
}

// failed returns the input for a failed request, or for a list that the store ended. No list goes on
// after a failure.
func (r *run[T]) failed(ctx context.Context, op protocol.Op, version string, err error) protocol.Input {
	failure := r.newError(op, version, err)
	r.staging.discard()
	r.observing.failList(ctx, failure)
	return protocol.Input{Kind: protocol.Failed, Err: failure}
}

// askVersion asks the client whether its server answers consistent lists in pages from its watch
// cache. Every failure means no, for the next list.
func (r *run[T]) askVersion(ctx context.Context) protocol.Input {
	limited, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	from, ok := r.source.(source.Versioned)
	in := protocol.Input{Kind: protocol.Told}
	if ok {
		var err error
		in.Consistent, err = from.ListsConsistently(limited)
		in.Unanswered = err != nil
	}
	r.logger.Debug("asked for the version of Kubernetes", zap.Bool("consistentLists", in.Consistent))
	return in
}

func (r *run[T]) askWatch(ctx context.Context, a protocol.Action) protocol.Input {
	opts := r.listOptions()
	opts.ResourceVersion = a.Version
	opts.AllowWatchBookmarks = true
	timeout := int64((minWatch + rand.N(maxWatch-minWatch)).Seconds())
	opts.TimeoutSeconds = &timeout
	until := time.Now().Add(time.Duration(timeout) * time.Second)
	wanted := source.Wants[T]{Shards: r.shards}
	if a.Do == protocol.AskStream {
		r.evidence.anew()
		opts.ShardSelector = r.shardSelector()
		r.observing.beginList(r.name, true)
		r.asks(a)
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
	unanswered.Stop()
	if err != nil {
		cancel(nil)
		return r.failed(ctx, r.protocol.Op(), a.Version, withCause(limited, err))
	}
	r.stream, r.cancelWatch = open, cancel
	r.observing.beginWatch(r.name)
	r.status.contact()
	r.logger.Debug("watching", zap.String("resourceVersion", a.Version), zap.Bool("initialEvents", a.Do == protocol.AskStream))
	if a.Do == protocol.AskWatch && !r.protocol.Doubtful() {
		r.watches()
	}
	return protocol.Input{Kind: protocol.Accepted, Lasts: time.Until(until)}
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
	if !r.protocol.Polling() || r.status.get().Phase != Polling {
		r.status.enter(phase)
	}
}

// watches sets the phase to Watching or Polling. The error of rejected objects stays in the state.
func (r *run[T]) watches() {
	phase := Watching
	if r.protocol.Polling() {
		phase = Polling
	}
	before := r.status.get()
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

// holds returns a function that reports whether the store has an object with the same content, so
// that the client need not decode it. It returns nil for a store that is not filled yet.
func (r *run[T]) holds() source.HoldsFunc {
	if !r.batching || r.protocol.Position() == "" {
		return nil
	}
	return r.store.(store.BatchStore[T]).Has
}

func (r *run[T]) listOptions() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: r.labelSelector, FieldSelector: r.fieldSelector, ShardSelector: r.shardSelector()}
}
