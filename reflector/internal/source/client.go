package source

import (
	"context"
	"path"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/watchlist"
)

// Client lists and watches one resource. Every typed client from Kubernetes' code generator is a
// Client: clientset.CoreV1().Pods("default") is a Client[*corev1.Pod, *corev1.PodList].
//
// Get determines T for the compiler, which List and Watch do not. The compiler then infers T, and
// refuses a store of another type. The reflector itself calls Get only for a lookup: see
// reflector.KubernetesResourceReflector.Lookup.
type Client[T, L any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Source is a client as a reflector sees it, without the type of its lists.
type Source[T Object] interface {
	// Check returns an error if the source cannot work.
	Check() error
	About() About
	// List and Watch may leave out objects that the reflector does not want. The reflector itself
	// leaves out the events of other shards.
	List(ctx context.Context, opts metav1.ListOptions, w Wants[T]) (Page[T], error)
	Watch(ctx context.Context, opts metav1.ListOptions, w Wants[T]) (Stream[T], error)
}

// About describes a source.
type About struct {
	Resource   string       // the name of the resource, if the client knows it
	Namespace  string       // the namespace of all objects, if the client knows it
	Scope      Scope        // as far as the client knows it now
	Type       reflect.Type // the Go type of all objects, if the client knows it: T may be an interface
	WatchLists bool         // the client can ask for watch-lists
	Replayed   bool         // the answers come from a recording, so durations are meaningless
}

// Versioned is a Source that can ask its server for the version of Kubernetes.
type Versioned interface {
	// ListsConsistently reports whether the API server answers lists of the newest state in pages
	// from its watch cache, as Kubernetes 1.34 and later do. It returns false if the server does
	// not tell, and an error if the server does not answer.
	ListsConsistently(ctx context.Context) (bool, error)
}

// Scope says whether the objects of a kind have namespaces.
type Scope int

const (
	UnknownScope Scope = iota
	Namespaced
	ClusterScoped
)

// Session is a Source that follows the runs of its reflector.
type Session interface {
	// Begin tells the source that a run begins. It returns an error if the reflector cannot use the
	// source. The reflector calls end after the run.
	Begin(run Run) (end func(), err error)
}

// Run is a run of a reflector.
type Run struct {
	Reflector       any    // the same for each run of a reflector
	Name            string // the name of the reflector
	ResourceVersion string // of the store
	WatchLists      bool   // the reflector asks for watch-lists
	// Report reports a failure that does not stop the reflector. The source calls it from the
	// goroutine of the run.
	Report func(error)
}

// provider is a client with a source of its own.
type provider[T Object] interface {
	// Source returns the client's source. It returns nil if self is a wrapper of the client: the
	// reflector must then call the methods of the wrapper.
	Source(self any) Source[T]
}

// Wants tells a source which objects the reflector needs.
type Wants[T Object] struct {
	Holds  HoldsFunc // if not nil: skip objects that the store holds with the same content
	Shards *Shards   // skip objects outside these shards
	// Take, if it is not nil, may receive the items of a list in order, while the list arrives.
	// These items are then missing from the page. If the list fails, the items that take received
	// are void.
	Take func(object T, hash uint64)
	// Probe is not nil if the list is a probe: see reflector-R6. It reports whether the page
	// contradicts earlier answers.
	Probe func(Page[T]) bool
}

// Skip returns the objects to leave out.
func (w Wants[T]) Skip() stream.Skip { return stream.Skip{Holds: w.Holds, Shards: w.Shards} }

// Of returns the source of a client.
func Of[T Object, L any](client Client[T, L]) Source[T] {
	if p, ok := any(client).(provider[T]); ok {
		if own := p.Source(client); own != nil {
			return own
		}
	}
	return &ClientSource[T, L]{client: client, lists: NewListType[T, L]()}
}

// ClientSource is the source for a Client of any other type.
type ClientSource[T Object, L any] struct {
	client Client[T, L]
	lists  listType[T, L]
}

func (s *ClientSource[T, L]) Check() error {
	if IsNil(s.client) {
		return ErrNoClient
	}
	return s.lists.Err
}

func (s *ClientSource[T, L]) List(ctx context.Context, opts metav1.ListOptions, w Wants[T]) (Page[T], error) {
	if w.Probe != nil {
		ctx = context.WithValue(ctx, probeKey{}, true)
	}
	list, err := s.client.List(ctx, opts)
	if err != nil {
		return Page[T]{}, stream.Bound(err)
	}
	p, err := s.lists.Page(list)
	if err == nil && p.ResourceVersion == "" && isFake(s.client) {
		p.ResourceVersion = anyVersion
	}
	stream.FilterPage(w.Shards, &p)
	return p, err
}

// anyVersion replaces the missing version of a list from a fake client, such as that of a zero
// fake.Clientset. A watch from this version begins at any state.
const anyVersion = "0"

// probeKey is the context key that marks the list of a probe, for a Replay within a wrapper.
type probeKey struct{}

// IsProbe reports whether a list is a probe.
func IsProbe(ctx context.Context) bool { return ctx.Value(probeKey{}) != nil }

func (s *ClientSource[T, L]) Watch(ctx context.Context, opts metav1.ListOptions, _ Wants[T]) (Stream[T], error) {
	w, err := s.client.Watch(ctx, opts)
	if err == nil && IsNil(w) {
		err = ErrNoWatch
	}
	if err != nil {
		return nil, stream.Bound(err)
	}
	if of, ok := w.(interface{ Stream(self any) Stream[T] }); ok {
		if own := of.Stream(w); own != nil {
			return own, nil
		}
	}
	return &ClientStream[T]{Watch: w}, nil
}

// IsNil reports whether value is nil, or an interface that holds a nil pointer.
func IsNil(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func (s *ClientSource[T, L]) About() About { return About{WatchLists: CanStream(s.client)} }

// CanStream reports whether a client can serve watch-lists. Test doubles over an object tracker
// cannot: they send no closing bookmark. client-go's fake clientsets declare this, but their typed
// clients do not. CanStream recognizes the typed clients by their package name, fake.
func CanStream(client any) bool {
	if IsNil(client) {
		return false // Run reports the missing client
	}
	if watchlist.DoesClientNotSupportWatchListSemantics(client) {
		return false
	}
	return !isFake(client)
}

func isFake(client any) bool {
	t := reflect.TypeOf(client)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return path.Base(t.PkgPath()) == "fake"
}
