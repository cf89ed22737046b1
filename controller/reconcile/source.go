package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// source is an informer whose events trigger reconciles.
type source interface {
	// check returns an error if the informer or the mapping is nil.
	check() error
	of() anyInformer
	// subscribe starts to pass events of the informer to tell, beginning with the objects in its
	// cache.
	subscribe(o *options, name string, tell func(trigger)) subscription
	// has reports whether a written object belongs to the source.
	has(w written) bool
	// object returns the object that the cache holds under a key, or nil.
	object(key store.Key) any
	// visible returns a wait until the cache shows a write for a key; nil if the object does not
	// belong to the source. If the object was deleted before the cache could show it, the wait triggers
	// what its deletion does.
	visible(r *run, key store.Key, w written) wait
}

// anyInformer is an [informer.Informer] of any type.
type anyInformer interface {
	informer.Runnable
	Name() string
	Stopped() <-chan struct{}
	Synced() <-chan struct{}
	State() reflector.State
	Changed(seen reflector.State) <-chan struct{}
	CatchUp(ctx context.Context, since time.Time, of ...store.Key) error
	ClusterScoped() bool
	LearnScope(ctx context.Context, key store.Key) (clusterScoped bool, err error)
	Gone(ctx context.Context, key store.Key, deleted ...types.UID) (bool, error)
	Selects(object metav1.Object) bool
}

// subscription is an [informer.Subscription] of any type.
type subscription interface {
	Synced() <-chan struct{}
	Done() <-chan struct{}
	Close()
}

// trigger is the reason to reconcile a key.
type trigger struct {
	key     store.Key
	live    bool          // the event is no initial addition
	of      store.Version // the version of the object that changed
	prior   store.Version // the version before a modification; zero if the key was not mapped to that state
	added   bool          // the object appeared
	gone    bool          // the event is a Deletion: see queue-E9
	left    bool          // the scope of the object was dropped: another process is responsible for it now
	primary bool          // the event's object is the object of the key
	listed  bool          // the event comes from a list: earlier changes may be missing
	cause   *cause        // nil without an observer
}

var errUnnamedKey = fmt.Errorf("mapping returned a key without a name, so no object has it: %w", store.ErrBadKey)

// watching is the source of one informer.
type watching[S any] struct {
	informer *informer.Informer[S]
	keys     func(S) []store.Key // nil: the own key of the object, as for the primary source
	mapped   bool                // keys must not be nil
	only     []func(eventqueue.Event[S]) bool
	sampled  atomic.Pointer[store.Key] // the key of an object of the cache; nil before the first question
	// handling is held while only and keys run: they see one event at a time, also if a hold tells of a deletion.
	handling sync.Mutex
}

// Watch triggers reconciles for changes of objects of a secondary informer. keys returns the keys
// to reconcile for an object, such as the key in a label: see [ByLabel], [ByIndex] and [OwnerKeys].
// A modification is mapped twice, for its prior and its new state. So an object that moves from one
// owner to another triggers both.
//
// Keys without a cluster get the cluster of the object, and keys of a primary kind without namespaces
// lose their namespace. A key without a name is reported as [store.ErrBadKey] and not reconciled. The
// other keys of the event are.
//
// An object that leaves the informer triggers no reconcile: its scope was dropped. A key without an
// object in the primary cache is reconciled only if no such object exists, and no other process may be
// responsible for the key: see reconcile-R9 and reconcile-R11.
//
// Events for which one of the predicates returns false are ignored. A nil predicate accepts all
// events. See [GenerationChanged]. None of the functions may change objects. They run for one event at a
// time, and all events that wait for them are kept in memory, so they must be quicker than the changes come.
// If a function panics, the event is reported and dropped, except for the keys that were found before.
func Watch[S any](secondary *informer.Informer[S], keys func(S) []store.Key, only ...func(eventqueue.Event[S]) bool) Option {
	return optionFunc(func(o *options) {
		o.sources = append(o.sources, &watching[S]{informer: secondary, mapped: true, keys: keys, only: only})
	})
}

// Owns triggers a reconcile of the controlling owner for changes of the objects of a secondary
// informer. It is [Watch] with [OwnerKeys]. kind is the kind of the primary objects. An owner without
// a namespace may own objects of any namespace.
func Owns[S metav1.Object](secondary *informer.Informer[S], kind schema.GroupKind, only ...func(eventqueue.Event[S]) bool) Option {
	return Watch(secondary, OwnerKeys[S](kind), only...)
}

// Where ignores the events of the primary informer for which a predicate returns false. See
// [GenerationChanged]. Run returns an error if the predicate is for another type than the primary
// informer has. A nil predicate accepts all events.
func Where[T any](accepts func(eventqueue.Event[T]) bool) Option {
	return optionFunc(func(o *options) {
		o.where = append(o.where, func(primary source) error {
			w, ok := primary.(*watching[T])
			if !ok {
				return fmt.Errorf("%w: it is for %v", errOtherType, reflect.TypeFor[T]())
			}
			w.only = append(w.only, accepts)
			return nil
		})
	})
}

var errOtherType = errors.New("predicate of Where is for another type than the primary informer has")

func (w *watching[S]) check() error {
	switch {
	case w.informer == nil:
		return fmt.Errorf("informer of %v: %w", reflect.TypeFor[S](), controller.ErrIncomplete)
	case w.mapped && w.keys == nil:
		return fmt.Errorf("mapping of %v: %w", reflect.TypeFor[S](), controller.ErrIncomplete)
	}
	return nil
}

func (w *watching[S]) object(key store.Key) any {
	if object, held := w.informer.Cache().Get(key); held {
		return object
	}
	return nil
}

func (w *watching[S]) of() anyInformer { return w.informer }

func (w *watching[S]) subscribe(o *options, name string, tell func(trigger)) subscription {
	opts := []informer.SubscriptionOption{
		informer.WithName(name),
		// If two changes were merged into one, an owner in between would be missed. The handler is
		// quick, so the backlog needs little memory.
		informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)),
		informer.WithErrorHandler(o.errorHandler), // nil means the informer's error handler
	}
	if o.logger.Core().Enabled(zapcore.ErrorLevel) { // else the informer's logger reports errors
		opts = append(opts, informer.WithLogger(o.logger.With(zap.String("reconciler", name))))
	}
	return w.informer.Handle(w.handler(o, tell), opts...)
}

func (w *watching[S]) handler(o *options, tell func(trigger)) informer.HandlerFunc[S] {
	if len(o.observers) == 0 {
		return func(_ context.Context, event eventqueue.Event[S]) error { return w.handle(event, tell) }
	}
	return func(ctx context.Context, event eventqueue.Event[S]) error {
		because := causeOf(ctx, event)
		return w.handle(event, func(t trigger) {
			t.cause = because
			tell(t)
		})
	}
}

// triggerOf returns the trigger of an event, without a key and a prior version.
func triggerOf[S any](event eventqueue.Event[S]) trigger {
	return trigger{
		of: store.VersionOf(event.Object), gone: event.Type == eventqueue.Deletion, left: event.OutOfScope,
		added:  event.Type == eventqueue.Addition,
		listed: event.Origin != eventqueue.Watch,
		live:   !event.Initial,
	}
}

func causeOf[S any](ctx context.Context, event eventqueue.Event[S]) *cause {
	return &cause{ctx, Trigger{Object: event.Key, Type: event.Type, Origin: event.Origin}}
}

// EnqueueEvent queues keys because of an event of an informer that comes and goes while Run runs, as those of
// package fleet do. Call it in a handler of that informer, with the handler's context. It does what [Watch]
// does and [Reconciler.Enqueue] cannot: the event of a write of a failed call does not shorten the back-off of
// its key (reconcile-R3), so a call that fails after a write is not repeated at once, again and again; an
// initial addition yields to live events; and observers see why the key is reconciled. Like Enqueue it logs and
// ignores a key without a name, and does nothing while Run does not run.
func EnqueueEvent[T, S any](ctx context.Context, r *Reconciler[T], event eventqueue.Event[S], keys ...store.Key) {
	run := r.current.Load()
	if run == nil {
		return
	}
	t := triggerOf(event)
	if len(run.observers) > 0 {
		t.cause = causeOf(ctx, event)
	}
	for _, t.key = range keys {
		run.trigger(t)
	}
}

// handle turns an event into triggers. A panic is permanent: a retry would panic again.
func (w *watching[S]) handle(event eventqueue.Event[S], tell func(trigger)) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = eventqueue.Permanent(&eventqueue.PanicError{Key: event.Key, Value: value, Stack: debug.Stack()})
		}
	}()
	w.handling.Lock()
	defer w.handling.Unlock()
	for _, accepts := range w.only {
		if accepts != nil && !event.OutOfScope && !accepts(event) {
			return nil
		}
	}
	t := triggerOf(event)
	t.primary = w.keys == nil
	var prior store.Version
	if event.Type == eventqueue.Modification {
		prior = store.VersionOf(event.Prior)
	}
	if w.keys == nil {
		t.key, t.prior = event.Key, prior
		tell(t)
		return nil
	}
	var found []trigger
	at := map[store.Key]int{} // in found
	add := func(keys []store.Key, before store.Version) {
		for _, t.key = range keys {
			if t.key.Name == "" {
				err = eventqueue.Permanent(fmt.Errorf("map %s: key %q: %w", event.Key, t.key, errUnnamedKey))
				continue
			}
			if t.key.Cluster == "" {
				t.key.Cluster = event.Key.Cluster // the functions do not see it
			}
			n, known := at[t.key]
			if !known {
				n = len(found)
				at[t.key], found = n, append(found, t)
			}
			found[n].prior = before
			if t.key.Cluster != event.Key.Cluster { // a call writes in the cluster of its key
				found[n].of, found[n].prior = store.Version{}, store.Version{}
			}
		}
	}
	defer func() { // also if the mapping of the prior state panics
		for _, one := range found {
			tell(one)
		}
	}()
	add(w.keys(event.Object), store.Version{})
	if event.Type == eventqueue.Modification {
		add(w.keys(event.Prior), prior)
	}
	return err
}

// OwnerKeys returns the mapping of [Owns], from an object to its controlling owner, as
// [metav1.NewControllerRef] sets it, if the owner is of the given kind. The version of the kind
// does not matter. The mapping returns the namespace of the object; the reconciler drops it if its
// primary objects have none.
func OwnerKeys[S metav1.Object](kind schema.GroupKind) func(S) []store.Key {
	return func(object S) []store.Key {
		ref := metav1.GetControllerOfNoCopy(object)
		if ref == nil || ref.Kind != kind.Kind {
			return nil
		}
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil || version.Group != kind.Group {
			return nil
		}
		return []store.Key{{Namespace: object.GetNamespace(), Name: ref.Name}}
	}
}

const (
	unknownScope = iota
	namespaced
	clusterScoped
)

// inScope returns the key without its namespace if the primary objects have no namespaces. A mapping
// sees only the secondary object, which may be in a namespace although its owner is not.
func (r *run) inScope(key store.Key) store.Key {
	if key.Namespace == "" || len(r.sources) == 0 {
		return key
	}
	// Objects say more than discovery: the kind may have been defined again with another scope. The cache has
	// the first object before the handler.
	bare, primary := key, r.sources[0]
	bare.Namespace = ""
	scope := r.scope.Load()
	if scope == clusterScoped || scope == unknownScope && (primary.object(bare) != nil || primary.of().ClusterScoped()) {
		return bare
	}
	return key
}

// ByLabel returns a mapping for [Watch] from an object to the one that a label names: in its
// namespace, or without one if the primary objects have none.
func ByLabel[S metav1.Object](label string) func(S) []store.Key {
	return func(object S) []store.Key {
		name := object.GetLabels()[label]
		if name == "" {
			return nil
		}
		return []store.Key{{Namespace: object.GetNamespace(), Name: name}}
	}
}

// ByIndex returns a mapping for [Watch] from an object to all objects of the primary cache that
// share a value with it in an index, such as all objects that name it. It finds the objects that
// are in the cache when the object changes. An object that comes later is reconciled because of its
// own addition.
func ByIndex[S, T any, I comparable](index *store.Index[I, T], values func(S) []I) func(S) []store.Key {
	return func(object S) []store.Key {
		var keys []store.Key
		for _, value := range values(object) {
			for key := range index.Get(value) {
				keys = append(keys, key)
			}
		}
		return keys
	}
}

// GenerationChanged is a predicate for [Watch] and [Where]. It rejects modifications of only the
// status or the metadata, which keep the generation. It accepts the beginning of a deletion. It does
// not work for kinds without a generation, such as ConfigMaps. It also rejects an object that the
// server shows differently under the same generation and resource version, because its definition
// got a default or another conversion: so does every predicate that compares versions.
func GenerationChanged[S metav1.Object](event eventqueue.Event[S]) bool {
	if event.Type != eventqueue.Modification {
		return true
	}
	return event.Prior.GetGeneration() != event.Object.GetGeneration() ||
		event.Prior.GetUID() != event.Object.GetUID() ||
		(event.Prior.GetDeletionTimestamp() == nil) != (event.Object.GetDeletionTimestamp() == nil)
}
