package refer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/ours"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Reconciler is a [reconcile.Reconciler] whose function may call [Get] and [List]. Create one with [New].
type Reconciler[T any] struct {
	*reconcile.Reconciler[T]
	primary *informer.Informer[T]
	kinds   *fleet.Fleet
	running lifecycle.Running
	current atomic.Pointer[references] // of a Run; nil if none runs, or only that of the embedded reconciler
}

// New is [reconcile.New] for a function that calls [Get] and [List]. The informers of the kinds that it
// refers to belong to a fleet, which must run beside the reconciler: until it does, Get and List return
// errors. A nil fleet is an error of Run.
func New[T any](name string, primary *informer.Informer[T], kinds *fleet.Fleet, fn reconcile.Func[T], opts ...reconcile.Option) *Reconciler[T] {
	r := &Reconciler[T]{primary: primary, kinds: kinds}
	within := fn
	if fn != nil {
		within = func(ctx context.Context, key store.Key, object T) (result reconcile.Result, err error) {
			if s := r.current.Load(); s != nil {
				c := s.begin(key, reflect.ValueOf(&object).Elem().IsZero())
				ctx = context.WithValue(ctx, callKey{}, c)
				err = eventqueue.ErrAbandoned // if fn panics or calls runtime.Goexit
				defer func() { c.end(err) }()
			}
			result, err = fn(ctx, key, object)
			return result, err
		}
	}
	opts = append(slices.Clip(opts), reconcile.OnUncalled(ours.Only{}, func(key store.Key) {
		if s := r.current.Load(); s != nil {
			s.uncalled(key)
		}
	}))
	r.Reconciler = reconcile.New(name, primary, within, opts...)
	return r
}

// Run is [reconcile.Reconciler.Run]. Before it returns, it leaves all kinds that keys refer to. After the end
// of ctx, changes of these kinds queue no further keys.
func (r *Reconciler[T]) Run(ctx context.Context) error {
	if r.kinds == nil {
		return fmt.Errorf("reconciler %s: fleet: %w", r.Name(), controller.ErrIncomplete)
	}
	end, err := r.running.Begin("reconciler " + r.Name())
	if err != nil {
		return err
	}
	defer end()
	if r.primary == nil {
		return r.Reconciler.Run(ctx) // it names what is missing
	}
	s := newReferences(r.kinds, r.Name())
	s.has = func(key store.Key) bool { _, ok := r.primary.Cache().Get(key); return ok }
	s.enqueue = func(key store.Key) {
		if ctx.Err() == nil { // the next Run reconciles every key
			r.Enqueue(key)
		}
	}
	s.enqueueEvent = func(of context.Context, event eventqueue.Event[metav1.Object], key store.Key) {
		if ctx.Err() == nil {
			reconcile.EnqueueEvent(of, r.Reconciler, event, key)
		}
	}
	r.current.Store(s)
	defer func() {
		r.current.Store(nil)
		s.close()
	}()
	leaving := r.primary.Handle(informer.HandlerFunc[T](func(_ context.Context, event eventqueue.Event[T]) error {
		if event.Type == eventqueue.Deletion || event.OutOfScope {
			s.leave(event.Key)
		}
		return nil
	}), informer.WithName(r.Name()+": references"))
	defer func() {
		leaving.Close()
		<-leaving.Done()
	}()
	return r.Reconciler.Run(ctx)
}

// Get returns the object of a kind, and refers to it: the key of the running call is reconciled again when
// the object changes, also when it is created, or when the kind begins or ceases to be served. T is the form
// of the object, as in [fleet.Want], and so is a kind without a version.
//
// With an error the object is the last known one, and found says nothing about the server: see the package
// documentation. The cache is shared: copy the object before you change it. ctx is the context of the
// reconcile function, or derives from it. Another one is an error, because no key would be reconciled again.
func Get[T reflector.Object](ctx context.Context, kind schema.GroupVersionKind, key store.Key) (object T, found bool, err error) {
	if key.Name == "" {
		return object, false, fmt.Errorf("refer to %s %q without a name: %w", kind, key, store.ErrBadKey)
	}
	from, problem, err := refer[T](ctx, reference{form: formOf[T](kind), key: key}, nil)
	if err != nil {
		return object, false, err
	}
	object, found = from.Cache().Get(key)
	return object, found, problem
}

// List returns the objects of a kind that a selector chooses, in a namespace, or in all if it is empty. It
// refers to them, as [Get] does: the key is reconciled again when one of them changes, appears, or begins or
// ceases to match. The selector is evaluated here and not by the server, so that a thousand keys with
// selectors of their own share one watch. A nil selector chooses everything.
func List[T reflector.Object](ctx context.Context, kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]T, error) {
	if selector == nil {
		selector = labels.Everything()
	}
	ref := reference{form: formOf[T](kind), key: store.Key{Namespace: namespace}, labels: selector.String()}
	if ref.labels == "" && !selector.Empty() {
		ref.labels = "(nothing)" // no selector has this text
	}
	from, problem, err := refer[T](ctx, ref, selector)
	if err != nil {
		return nil, err
	}
	all := from.Cache().All()
	if namespace != "" {
		all = from.Cache().Namespace(namespace)
	}
	var chosen []T
	for _, object := range all {
		if selector.Matches(labels.Set(object.GetLabels())) {
			chosen = append(chosen, object)
		}
	}
	return chosen, problem
}

var errNoCall = errors.New("context is not that of a running call of a reconciler of package refer: pass the context that the reconcile function got")

// refer registers a reference of a call. The caller reads the cache after that: a change before the
// registration is in the cache by then, and a change after it queues the key. The problem is that of the
// cache before the read, so that without one the read is what the server had.
func refer[T reflector.Object](ctx context.Context, ref reference, selector labels.Selector) (from *fleet.Wanted[T], problem error, err error) {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return nil, nil, errNoCall
	}
	w, followed, err := c.refer(ref, selector, func(w *watch) (attached, error) { return attach[T](c.of, w) })
	if err != nil {
		return nil, nil, err
	}
	problem = problemOf(followed)
	c.of.saw(w, problem)
	return followed.(*fleet.Wanted[T]), problem, nil
}

func formOf[T any](kind schema.GroupVersionKind) form {
	return form{kind, reflect.TypeFor[T]()}
}

// attach makes the fleet run the informer of a watch, and follows its objects. Each informer has an owner
// of its own, so that one that is left cannot end another one's interest in the same kind.
func attach[T reflector.Object](s *references, w *watch) (made attached, err error) {
	owner := s.kinds.NewOwner(context.Background(), "reconciler "+s.name)
	defer func() {
		if made.owner == nil { // also if an observer of the fleet's informers panics
			owner.Leave()
		}
	}()
	wanted, err := fleet.Want[T](owner, w.kind, fleet.Selection{})
	if err != nil {
		return attached{}, err // it names the kind
	}
	subscription := wanted.Handle(informer.HandlerFunc[T](func(ctx context.Context, event eventqueue.Event[T]) error {
		s.changed(ctx, w, eventqueue.Event[metav1.Object]{
			Type: event.Type, Origin: event.Origin, Initial: event.Initial, OutOfScope: event.OutOfScope,
			Key: event.Key, Prior: event.Prior, Object: event.Object,
		})
		return nil
	}),
		informer.WithName("reconciler "+s.name),
		// If two changes were merged into one, a call might have listed the object by the state between them.
		informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
	return attached{owner: owner, informer: wanted, done: subscription.Done()}, nil
}
