package reflector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// KubernetesResourceReflector keeps a store equal to one resource of an API server: all of it, one
// namespace or a selection. The package documentation lists its guarantees.
//
// Create one with [New], and start it with [KubernetesResourceReflector.Run].
type KubernetesResourceReflector[T Object] struct {
	options
	source  stream.Source[T]
	lookups func() stream.Source[T] // for Lookup
	store   store.Store[T]
	running lifecycle.Running
	status  *status
	// catching has a value while a CatchUp runs.
	catching chan struct{}
	// namespace is that of the client; empty for all of them, or if it is not known.
	namespace string
	selects   bool // the client selects objects by itself
	// cancelWatch ends the open watch, with a reason; nil without one. CatchUp calls it, too.
	cancelWatch atomic.Pointer[context.CancelCauseFunc]

	// Only the goroutine of Run uses the fields below. They outlive Run.

	protocol protocol.State
	// rejected is the error of the objects that the store rejected; nil if it has all objects.
	rejected error
	// mismatched is true if the server's selection of a shard differs from the reflector's.
	mismatched bool
}

// New returns a reflector that fills a store from a client. The reflector does nothing until Run is
// called. Run also reports a nil client or store.
func New[T Object, L any](client Client[T, L], s store.Store[T], opts ...Option) *KubernetesResourceReflector[T] {
	from, o := sourceOf(client), newOptions(reflect.TypeFor[T]().String(), opts)
	of := from.About()
	_, versioned := from.(stream.Versioned)
	return &KubernetesResourceReflector[T]{
		options:   o,
		source:    from,
		lookups:   sync.OnceValue(func() stream.Source[T] { return lookupsOf(client, from) }),
		store:     s,
		status:    newStatus(),
		namespace: of.Namespace,
		selects:   of.Selects,
		catching:  make(chan struct{}, 1),
		protocol: protocol.New(protocol.Options{
			PageSize: o.pageSize, AlwaysPage: o.alwaysPage, WatchLists: o.watchList && of.WatchLists, AsksVersion: versioned, ListsFirst: o.listsFirst,
		}),
	}
}

// Run keeps the store equal to the server until ctx ends, and then returns nil. It returns an error
// if the reflector cannot work at all or already runs. It also returns each error that [WithRetry]
// declares final.
//
// Run may be called again after it returned. It resumes from the store's resource version if the
// store has one and the server still knows it, and lists otherwise. That also holds for the first
// Run over a store that was filled before.
//
// If such a store lacks a rejected object, only the reflector that filled it knows. Another
// reflector may repeat some events, so the store may go back to older states for a moment.
func (r *KubernetesResourceReflector[T]) Run(ctx context.Context) error {
	if err := errors.Join(r.source.Check(), r.options.err); err != nil {
		return err
	}
	if stream.IsNil(r.store) {
		return ErrNoStore
	}
	end, err := r.running.Begin("reflector " + r.name)
	if err != nil {
		return err
	}
	defer end()
	defer r.status.enter(Stopped)
	work := &run[T]{KubernetesResourceReflector: r, observing: observing{observers: r.observers}}
	defer work.closeWatch()
	return work.loop(ctx)
}

// State returns the current state of the reflector.
func (r *KubernetesResourceReflector[T]) State() State { return r.status.state.Get() }

// Changed returns a channel that is closed when the state differs from seen. Changes of the
// resource version and of the time of contact do not count.
func (r *KubernetesResourceReflector[T]) Changed(seen State) <-chan struct{} {
	return r.status.state.Changed(seen)
}

// OnChange sets a function that the goroutine of Run calls after each change that Changed reports. It is
// for packages of this repository: an informer needs no goroutine of its own to follow the state.
func (r *KubernetesResourceReflector[T]) OnChange(fn func()) { r.status.state.OnChange(fn) }

// Synced returns a channel that is closed once a list has filled the store. For a store that was
// filled before, the channel is closed once the server accepts a watch from the store's version.
// The channel stays closed; State reports whether the reflector is in step now.
func (r *KubernetesResourceReflector[T]) Synced() <-chan struct{} { return r.status.synced.Done() }

// newError wraps err with the operation and the resource version.
func (r *KubernetesResourceReflector[T]) newError(op protocol.Op, resourceVersion string, err error) *Error {
	if reason, ok := err.(protocol.Reason); ok {
		err = &ProtocolError{Reason: string(reason)}
	}
	if op != protocol.OpStore && apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	e := &Error{Reflector: r.name, Op: string(op), ResourceVersion: resourceVersion, Err: err}
	var rejected *store.RejectedError
	if errors.As(err, &rejected) && len(rejected.Rejections) == 1 {
		e.Key = rejected.Rejections[0].Key
	}
	return e
}
