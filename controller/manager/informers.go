package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrNoConfig means that [Informer] was called for a manager without a config.
var ErrNoConfig = errors.New("manager has no config: pass one to New")

// Selection selects the objects of an informer. The zero Selection selects all objects of the kind that
// the manager's scheme has for the Go type.
type Selection struct {
	// Resource is the resource of the objects. If it is empty, the manager asks the server for the
	// resource of the kind.
	Resource schema.GroupVersionResource
	// Kind is the kind of the objects, with its version. A Go type outside of the manager's scheme
	// needs it, unless there is a Resource.
	Kind schema.GroupVersionKind
	// Namespace restricts the objects to one namespace. Empty means all, or a resource without
	// namespaces.
	Namespace string
	// LabelSelector and FieldSelector filter objects, as the options of kubectl do.
	LabelSelector, FieldSelector string
}

// String describes the selection, without the Go type.
func (s Selection) String() string {
	var parts []string
	switch {
	case !s.Resource.Empty():
		parts = append(parts, s.Resource.GroupResource().String()+"/"+s.Resource.Version)
	case !s.Kind.Empty():
		parts = append(parts, s.Kind.GroupKind().String()+"/"+s.Kind.Version)
	}
	if s.Namespace != "" {
		parts = append(parts, "in "+s.Namespace)
	}
	if s.LabelSelector != "" {
		parts = append(parts, "with "+s.LabelSelector)
	}
	if s.FieldSelector != "" {
		parts = append(parts, "where "+s.FieldSelector)
	}
	return strings.Join(parts, " ")
}

func (s Selection) selectors() ([]reflector.Option, error) {
	byLabel, err := labels.Parse(s.LabelSelector)
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(s.FieldSelector)
	if err != nil {
		return nil, err
	}
	return []reflector.Option{reflector.WithLabelSelector(byLabel), reflector.WithFieldSelector(byField)}, nil
}

// sharing holds the informers that [Informer] has made.
type sharing struct {
	mu  sync.Mutex
	all map[shared]any // an *Objects of the type in the key
}

// shared is the identity of an informer.
type shared struct {
	of   reflect.Type
	from Selection
}

// Informer returns the informer of a selection. All calls with the same type and selection return the
// same informer, with one watch and one cache. The manager runs it until the manager ends. If the
// manager is already running, the informer starts at once.
//
// For only the metadata of the objects, T is *metav1.PartialObjectMetadata, and the selection has the
// Kind or the Resource.
//
// The informer has the options of [WithInformerOptions], and its client those of [WithClientOptions]. For one
// with other options or with a transform, make it and [Manager.Add] it.
func Informer[T reflector.Object](m *Manager, from Selection) (*informer.Informer[T], error) {
	objects, err := For[T](m, from)
	if err != nil {
		return nil, err
	}
	return objects.Informer, nil
}

// clientOf returns the client of a selection.
func clientOf[T reflector.Object](m *Manager, from Selection) (*client.Resource[T], error) {
	if m.config == nil {
		return nil, ErrNoConfig
	}
	if !from.Resource.Empty() {
		return client.ForResource[T](m.config, from.Resource, from.Namespace, m.decoding...)
	}
	asked, err := m.restMapper()
	if err != nil {
		return nil, err
	}
	all, err := client.For[T](m.config, append(slices.Clone(m.decoding),
		client.WithScheme(m.scheme), client.WithKind(from.Kind), client.WithRESTMapper(asked))...)
	if errors.Is(err, client.ErrNoKind) {
		err = fmt.Errorf("set Selection.Kind with its version, or pass the scheme of the type to manager.WithScheme: %w", err)
	}
	return all.In(from.Namespace), err
}

// kindOf returns the kind of T in a scheme, if there is one.
func kindOf[T reflector.Object](scheme *runtime.Scheme) schema.GroupVersionKind {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return schema.GroupVersionKind{}
	}
	object, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
	if !ok {
		return schema.GroupVersionKind{}
	}
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil || len(kinds) != 1 {
		return schema.GroupVersionKind{} // client.For returns the reason
	}
	return kinds[0]
}

// Objects is an informer and a client of the same objects. A reconcile function reads from the
// cache of the informer, and writes with the client or by package write. [For] makes them; a program
// with another informer, such as one of package scoped, makes them itself.
type Objects[T reflector.Object] struct {
	*informer.Informer[T]
	Client *client.Resource[T]
}

// For returns the informer of a selection, as [Informer] does, and a client of the same resource. All calls
// share the result: do not assign to its fields.
func For[T reflector.Object](m *Manager, from Selection) (*Objects[T], error) {
	if from.Resource.Empty() && from.Kind.Empty() {
		// So calls with and without the kind return the same informer.
		from.Kind = kindOf[T](m.scheme)
	}
	key := shared{of: reflect.TypeFor[T](), from: from}
	name := strings.TrimSpace(key.of.String() + " " + from.String())
	s := &m.informers
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.all[key].(*Objects[T]); ok {
		return known, nil
	}
	resource, err := clientOf[T](m, from)
	if err != nil {
		return nil, fmt.Errorf("informer of %s: %w", name, err)
	}
	selecting, err := from.selectors()
	if err != nil {
		return nil, fmt.Errorf("informer of %s: %w", name, err)
	}
	opts := []informer.Option{informer.WithName(name), informer.WithLogger(m.logger)}
	for _, more := range m.informing {
		opts = append(opts, more(name)...)
	}
	made := &Objects[T]{informer.New(resource, append(opts, informer.WithReflector(selecting...))...), resource}
	if s.all == nil {
		s.all = map[shared]any{}
	}
	s.all[key] = made
	m.Add(made.Informer)
	return made, nil
}

// ByReference returns a cache for a program that reads few of the selected objects: see package
// ondemand. The manager runs the informer, which holds only the metadata of the objects. Pass it to
// reconcile.Watch. The cache gets an object from the server at its first use.
//
// owned are label selectors of objects that the cache holds whole, each with an informer of the manager.
// A program that adds one later passes the cache of an [Informer] to [ondemand.Objects.AddOwned].
func ByReference[T reflector.Object](m *Manager, from Selection, owned ...string) (*ondemand.Objects[T], *informer.Informer[*metav1.PartialObjectMetadata], error) {
	if from.Resource.Empty() && from.Kind.Empty() {
		from.Kind = kindOf[T](m.scheme)
	}
	whose := make([]Selection, len(owned))
	for n, selector := range owned {
		whose[n] = from
		whose[n].LabelSelector = strings.Trim(from.LabelSelector+","+selector, ",")
		if _, err := whose[n].selectors(); err != nil { // before the manager has any of the informers
			return nil, nil, fmt.Errorf("informer of %s: %w", whose[n], err)
		}
	}
	objects, err := clientOf[T](m, from)
	if err != nil {
		return nil, nil, fmt.Errorf("client of %s: %w", from, err)
	}
	metadata, err := Informer[*metav1.PartialObjectMetadata](m, from)
	if err != nil {
		return nil, nil, err
	}
	whole, err := ondemand.New(objects.In, metadata.Cache())
	if err != nil {
		return nil, nil, err
	}
	for _, one := range whose {
		i, err := Informer[T](m, one)
		if err != nil {
			whole.Close()
			return nil, nil, err
		}
		whole.AddOwned(i.Cache())
	}
	return whole, metadata, nil
}

// Reconcile adds a reconciler with the manager's logger. Each log line, also of [reconcile.Logger]
// in its function, has the reconciler's name and the key. The reconciler works while this process
// leads. A call that takes longer than [WithStuckAfter] makes /healthz fail. See
// [reconcile.New].
func Reconcile[T any](m *Manager, name string, primary *informer.Informer[T], fn reconcile.Func[T], opts ...reconcile.Option) *reconcile.Reconciler[T] {
	calls := &stopwatch{limit: m.stuck, running: map[*running]struct{}{}}
	opts = slices.Concat([]reconcile.Option{reconcile.WithLogger(m.logger)}, m.reconciling, opts)
	r := reconcile.New(name, primary, around(calls, fn), opts...)
	m.AddLeaderElected(&reconciling[T]{r, calls})
	return r
}

// reconciling is a reconciler with a stopwatch for its calls.
type reconciling[T any] struct {
	*reconcile.Reconciler[T]
	*stopwatch
}

var _ LivenessChecker = (*reconciling[any])(nil)

// stopwatch knows the running calls and their start times.
type stopwatch struct {
	limit time.Duration // 0 or less for none

	mu      sync.Mutex
	running map[*running]struct{} // Guarded by mu
}

type running struct {
	key   store.Key
	since time.Time
}

// around returns the function with a stopwatch.
func around[T any](s *stopwatch, fn reconcile.Func[T]) reconcile.Func[T] {
	if fn == nil || s.limit <= 0 {
		return fn
	}
	return func(ctx context.Context, key store.Key, object T) (reconcile.Result, error) {
		call := &running{key: key, since: time.Now()}
		s.mu.Lock()
		s.running[call] = struct{}{}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, call)
		}()
		return fn(ctx, key, object)
	}
}

// Alive returns an error if a call takes too long.
func (s *stopwatch) Alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *running
	for call := range s.running {
		if oldest == nil || call.since.Before(oldest.since) {
			oldest = call
		}
	}
	if oldest == nil {
		return nil
	}
	if age := time.Since(oldest.since); age > s.limit {
		return fmt.Errorf("call for %s has not ended for %v: %w", oldest.key, age.Round(time.Second), ErrStuck)
	}
	return nil
}
