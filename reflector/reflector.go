package reflector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/store"
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

	protocol protocol
	// lacking is why the store has not got all that it was given; nil if it has.
	lacking error
}

// New returns a reflector that fills a store from a client. Nothing happens
// until Run is called; a nil client or store is reported by Run as well.
func New[T Object, L any](client Client[T, L], s store.Store[T], opts ...Option) *KubernetesResourceReflector[T] {
	return newReflector(newSource(client), s, opts)
}

func newReflector[T Object](from source[T], s store.Store[T], opts []Option) *KubernetesResourceReflector[T] {
	o := newOptions(reflect.TypeFor[T]().String(), opts)
	r := &KubernetesResourceReflector[T]{
		options:  o,
		source:   from,
		store:    s,
		status:   newStatus(),
		protocol: newProtocol(o.pageSize, o.alwaysPage, o.watchList && from.streams()),
	}
	_, r.protocol.replayed = from.(replaySource[T])
	_, r.protocol.shared = from.(sharedSource[T])
	return r
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
	if r.recorder != nil {
		if err := r.recorder.claim(r); err != nil {
			return err
		}
	}
	defer r.status.stop()
	work := &run[T]{KubernetesResourceReflector: r, observing: observing{observer: r.observer}, recording: recording[T]{to: r.recorder}}
	work.record()
	defer work.endRecording(ctx)
	defer work.close()
	return work.loop(ctx)
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

// newError wraps what went wrong.
func (r *KubernetesResourceReflector[T]) newError(op Op, resourceVersion string, err error) *Error {
	if op != OpStore && apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	e := &Error{Reflector: r.name, Op: op, ResourceVersion: resourceVersion, Err: err}
	var rejected *store.RejectedError
	if errors.As(err, &rejected) && len(rejected.Rejections) == 1 {
		e.Key = rejected.Rejections[0].Key
	}
	return e
}
