package reflector

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// KubernetesResourceReflector keeps a store equal to one resource of an API
// server, all of it or one namespace or selection. See the package
// documentation for what it guarantees.
//
// Create one with [New], and make it work with [KubernetesResourceReflector.Run].
type KubernetesResourceReflector[T Object] struct {
	options
	source  source[T]
	store   store.Store[T]
	running atomic.Bool
	status  *status

	// The fields below belong to the goroutine of Run, and outlive it.

	// position is the resource version to watch from; empty before the first
	// list. It may be ahead of the store's if an object was rejected: going
	// back there would play old events into newer objects.
	position string
	// relist is true if position is of no use any more.
	relist bool
	// relistAt is when to list once more because the store lacks an object;
	// zero if it lacks none. lacking is why.
	relistAt time.Time
	lacking  error
	// listed is when the last list was complete.
	listed time.Time

	failures   backoff // of requests
	rejections backoff // of objects
}

// New returns a reflector that fills a store from a client. Nothing happens
// until Run is called; a nil client or store is reported by Run as well.
func New[T Object, L any](client Client[T, L], s store.Store[T], opts ...Option) *KubernetesResourceReflector[T] {
	return &KubernetesResourceReflector[T]{
		options: newOptions(reflect.TypeFor[T]().String(), opts),
		source:  newClientSource(client),
		store:   s,
		status:  newStatus(),

		failures:   backoff{limit: maxBackoff},
		rejections: backoff{limit: maxRejectionBackoff},
	}
}

// Run keeps the store equal to the server until ctx ends, and then returns nil.
// It returns an error if the reflector cannot work at all or is running already,
// and one that [WithRetry] calls final.
//
// Run may be called again after it returned. It resumes from the resource version
// of the store, if the store has one and the server still knows it, and lists
// otherwise; so does the first Run over a store that was filled before. If that
// store lacks an object, which only the reflector that filled it knows, some events
// are repeated: it may go back to older states for a moment.
func (r *KubernetesResourceReflector[T]) Run(ctx context.Context) error {
	if err := errors.Join(r.source.check(), r.options.err); err != nil {
		return err
	}
	if isNil(r.store) {
		return ErrNoStore
	}
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	defer r.status.set(func(s *State) { s.Phase, s.Attempt, s.RetryAt = Stopped, 0, time.Time{} })

	if !r.relist && r.lacking == nil {
		r.position = r.store.ResourceVersion()
	}
	r.status.stored(r.store.ResourceVersion())
	for ctx.Err() == nil {
		err := r.cycle(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if r.cameOfAge(err) {
			r.logger.Debug("resource version expired, listing again", zap.Error(err))
			continue
		}
		if !r.retry(err) {
			r.status.set(func(s *State) { s.Err = err })
			return err
		}
		r.report(ctx, err)
		r.wait(ctx, err)
	}
	return nil
}

// State says what the reflector is doing.
func (r *KubernetesResourceReflector[T]) State() State { return r.status.get() }

// Changed returns a channel that is closed when the state is another than the
// given one. Resource version and time of contact do not count.
func (r *KubernetesResourceReflector[T]) Changed(seen State) <-chan struct{} {
	return r.status.after(seen)
}

// Synced returns a channel that is closed once the store has been filled by a
// list, or was filled before and the server accepted a watch from there. It stays
// closed: whether the reflector is in step now is a question for State.
func (r *KubernetesResourceReflector[T]) Synced() <-chan struct{} { return r.status.synced }

// cycle lists if that is due, and then watches until the watch ends.
func (r *KubernetesResourceReflector[T]) cycle(ctx context.Context) error {
	if r.position == "" || r.relist || r.relistDue() {
		if err := r.list(ctx); err != nil {
			return err
		}
	}
	return r.watch(ctx)
}

// cameOfAge reports whether a watch failed in the ordinary way: its resource version
// is old by now, and the server has forgotten it.
func (r *KubernetesResourceReflector[T]) cameOfAge(err error) bool {
	var failure *Error
	return errors.As(err, &failure) && failure.Op == OpWatch && expired(err) && time.Since(r.listed) >= expiryAfter
}

func (r *KubernetesResourceReflector[T]) relistDue() bool {
	return !r.relistAt.IsZero() && !time.Now().Before(r.relistAt)
}

// wait waits after a failure, for as long as the server asks for or the back-off
// says, whichever is longer.
func (r *KubernetesResourceReflector[T]) wait(ctx context.Context, err error) {
	now := time.Now()
	d := r.failures.next(now)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	r.status.set(func(s *State) {
		s.Phase, s.Err, s.Attempt, s.RetryAt = Waiting, err, r.failures.failures, now.Add(d)
	})
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// report tells of something that went wrong and is dealt with.
func (r *KubernetesResourceReflector[T]) report(ctx context.Context, err error) {
	r.logger.Warn("reflecting failed", zap.Error(err))
	r.errorHook(ctx, err)
}

// lack deals with something that the store did not take: it is reported, and
// fetched once more by a list, after a back-off.
func (r *KubernetesResourceReflector[T]) lack(ctx context.Context, err *Error) {
	r.report(ctx, err)
	r.lacking = err
	if r.relistAt.IsZero() {
		now := time.Now()
		r.relistAt = now.Add(r.rejections.next(now))
	}
	r.status.set(func(s *State) { s.Err = err })
}

// newError wraps what went wrong.
func (r *KubernetesResourceReflector[T]) newError(op Op, resourceVersion string, err error) *Error {
	e := &Error{Reflector: r.name, Op: op, ResourceVersion: resourceVersion, Err: err}
	var rejected *store.RejectedError
	if errors.As(err, &rejected) && len(rejected.Rejections) == 1 {
		e.Key = rejected.Rejections[0].Key
	}
	return e
}
