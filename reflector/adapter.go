package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/missing"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is the metadata of a Kubernetes object, which the reflector needs. Object omits
// comparable, so that one piece of machine code serves all pointer types.
type Object interface {
	metav1.Object
}

// Client lists and watches one resource. Every typed client from Kubernetes' code generator is a
// Client: clientset.CoreV1().Pods("default") is a Client[*corev1.Pod, *corev1.PodList].
//
// Get determines T for the compiler, which List and Watch do not. The compiler then infers T, and
// refuses a store of another type. The reflector itself calls Get only for a lookup: see
// [KubernetesResourceReflector.Lookup].
type Client[T, L any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

var (
	// ErrNoClient means that the program made a reflector with a nil client.
	ErrNoClient = stream.ErrNoClient

	// ErrTable means that the server sent a Table, a format for display, instead of objects.
	ErrTable = stream.ErrTable

	errNoWatch = errors.New("client returned neither a watch nor an error")
	errNoList  = errors.New("client returned neither a list nor an error")
)

// ListTypeError means that a client's list type differs from the output of Kubernetes' code
// generator: a pointer to a struct whose field Items is a slice of the objects.
type ListTypeError struct {
	// List and Object are Go types, such as "*v1.PodList" and "*v1.Pod".
	List, Object string
}

// Error names the list type and the expected shape.
func (e *ListTypeError) Error() string {
	return fmt.Sprintf("%s is no list of %s: want a pointer to a struct with list metadata and a field Items", e.List, e.Object)
}

// sourceOf returns the source of a client. A type that embeds a [client.Resource] may override its
// methods, so it is a client like any other.
func sourceOf[T Object, L any](of Client[T, L]) stream.Source[T] {
	if resource, ok := any(of).(*client.Resource[T]); ok {
		return resource.Source()
	}
	return newAdapter(of)
}

// adapter is the source of a client of another package, such as a generated one, which decodes
// whole lists.
type adapter[T Object, L any] struct {
	client Client[T, L]
	// Generated lists share no interface for their items, so newAdapter finds the field by
	// reflection, once.
	items []int // index of the field Items
	// pointers is true if the elements of Items have type T. Otherwise T is a pointer to them.
	pointers  bool
	err       error  // L is no list of T
	namespace string // of the client; empty for all of them
	hidden    bool   // the namespace is not known
	selects   bool   // the client selects objects by itself
	// seen are the namespaces of the objects that the client has shown, if its own is hidden.
	seen namespaces

	// double is true if a watch has shown that the client is a test double. Lookups and CatchUp read it, too.
	double atomic.Bool
	// refused is the last watch if it cannot answer a watch-list, and may be the next one: a test may keep
	// one watch for all requests. CatchUp may ask for a watch beside Run.
	refused atomic.Pointer[adaptedWatch[T]]
}

func newAdapter[T Object, L any](of Client[T, L]) *adapter[T, L] {
	object, list := reflect.TypeFor[T](), reflect.TypeFor[L]()
	a := &adapter[T, L]{client: of, err: &ListTypeError{List: list.String(), Object: object.String()}}
	a.namespace, a.hidden = stream.NamespaceOf(of)
	a.hidden = !a.hidden
	if of, ok := any(of).(stream.Selecting); ok && !stream.IsNil(of) {
		a.selects = of.SelectsObjects()
	}
	if list.Kind() != reflect.Pointer || list.Elem().Kind() != reflect.Struct {
		return a
	}
	field, ok := list.Elem().FieldByName("Items")
	if !ok || field.Type.Kind() != reflect.Slice {
		return a
	}
	item := field.Type.Elem()
	if item != object && reflect.PointerTo(item) != object {
		return a
	}
	if _, err := meta.ListAccessor(reflect.New(list.Elem()).Interface()); err != nil {
		return a
	}
	a.items, a.pointers, a.err = field.Index, item == object, nil
	return a
}

func (a *adapter[T, L]) Check() error {
	if stream.IsNil(a.client) {
		return ErrNoClient
	}
	return a.err
}

func (a *adapter[T, L]) About() stream.About {
	return stream.About{Namespace: a.namespace, Claimed: true, Selects: a.selects, WatchLists: stream.CanStream(a.client), Double: a.isDouble()}
}

func (a *adapter[T, L]) isDouble() bool {
	return a.double.Load() || !stream.IsNil(a.client) && stream.IsFake(a.client)
}

// maxNamespaces bounds namespaces, because some clusters make new ones all the time.
const maxNamespaces = 4096

// namespaces has the last namespaces of objects: maxNamespaces of them or more, up to twice as many.
type namespaces struct {
	mu              sync.RWMutex
	recent, earlier map[string]struct{}
}

func (n *namespaces) add(namespace string) {
	n.mu.RLock()
	_, known := n.recent[namespace]
	n.mu.RUnlock()
	if known {
		return // without an allocation
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.recent == nil || len(n.recent) == maxNamespaces {
		n.recent, n.earlier = map[string]struct{}{}, n.recent
	}
	n.recent[strings.Clone(namespace)] = struct{}{} // of the object, which it must not keep in memory
}

func (n *namespaces) has(namespace string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, recent := n.recent[namespace]
	_, earlier := n.earlier[namespace]
	return recent || earlier
}

// includes reports whether the client is known to be of all namespaces, or of the given one. A client that
// has shown objects of several may be of these alone.
func (a *adapter[T, L]) includes(namespace string) bool {
	return !a.hidden || namespace == "" || a.seen.has(namespace)
}

func (a *adapter[T, L]) List(ctx context.Context, opts metav1.ListOptions, w stream.Wants[T]) (stream.Page, error) {
	list, err := a.client.List(ctx, opts)
	if err != nil {
		return stream.Page{}, stream.Bound(err)
	}
	if stream.IsNil(list) {
		return stream.Page{}, errNoList
	}
	if isTable(list) {
		return stream.Page{}, ErrTable
	}
	metadata, err := meta.ListAccessor(list)
	if err != nil {
		return stream.Page{}, err
	}
	if err := stream.CheckVersion(metadata.GetResourceVersion()); err != nil {
		return stream.Page{}, err
	}
	p := stream.Page{Version: metadata.GetResourceVersion(), Continue: metadata.GetContinue(), Sharded: isSharded(list)}
	if p.Version == "" && a.isDouble() {
		p.Version = anyVersion
	}
	if w.Take != nil {
		// From here on nothing refers to the list, so that a store may keep a smaller form of each object.
		objects, err := a.objectsOf(reflect.ValueOf(list).Elem().FieldByIndex(a.items))
		if err != nil {
			return stream.Page{}, err
		}
		var gone T
		for i, object := range objects {
			objects[i] = gone
			if a.hidden {
				a.seen.add(object.GetNamespace())
			}
			taken := stream.Item[T]{Kind: stream.Put, Write: store.Write[T]{Type: store.Addition, Object: object}}
			w.Take(&taken)
		}
	}
	return p, nil
}

// objectsOf returns the objects of a list. It copies each object that the list holds by value, because
// a pointer into the slice would keep all objects of the list in memory
// (kubernetes/kubernetes#111370). In a list of pointers, an item may be nil.
func (a *adapter[T, L]) objectsOf(items reflect.Value) ([]T, error) {
	objects := make([]T, items.Len())
	for i := range objects {
		item := items.Index(i)
		if !a.pointers {
			own := reflect.New(item.Type())
			own.Elem().Set(item)
			item = own
		}
		object := item.Interface()
		if a.pointers && stream.IsNil(object) {
			return nil, fmt.Errorf("list has a nil %s at %d", reflect.TypeFor[T](), i)
		}
		objects[i] = object.(T) // newAdapter has checked the type
	}
	return objects, nil
}

// anyVersion replaces the missing version of a list from a fake client, such as that of a zero
// fake.Clientset. A watch from this version begins at any state.
const anyVersion = "0"

// isSharded reports whether a list says that it contains only a shard.
func isSharded(list any) bool {
	switch list := list.(type) {
	case metav1.ShardedListInterface:
		return list.GetShardInfo() != nil
	case *unstructured.UnstructuredList:
		_, found, err := unstructured.NestedMap(list.Object, "metadata", "shardInfo")
		return found && err == nil
	}
	return false
}

// isTable reports whether an object is a Table, in any Go type.
func isTable(object any) bool {
	o, ok := object.(runtime.Object)
	if !ok || stream.IsNil(o) {
		return false
	}
	kind := o.GetObjectKind().GroupVersionKind()
	return kind.Kind == "Table" && kind.Group == metav1.GroupName
}

func (a *adapter[T, L]) Watch(ctx context.Context, opts metav1.ListOptions, _ stream.Wants[T]) (stream.Items[T], error) {
	w, err := a.client.Watch(ctx, opts)
	if err == nil && stream.IsNil(w) {
		err = errNoWatch
	}
	if err != nil {
		return nil, stream.Bound(err)
	}
	// A type that embeds a Channel may change its events, so it is a watch like any other.
	if of, ok := w.(*stream.Channel[T]); ok {
		if own := of.Items(); own != nil {
			return own, nil
		}
	}
	open := &adaptedWatch[T]{watch: w}
	if a.hidden {
		open.seen = &a.seen
	}
	if before := a.refused.Swap(nil); before != nil {
		if before.watch == w {
			open = before
		} else if err := before.Close(); err != nil {
			return nil, errors.Join(err, open.Close())
		}
	}
	watchList := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	// Doubles also answer lists without a version. The list that this watch would follow is repeated, and gets one.
	trigger := opts.ResourceVersion == "" && opts.SendInitialEvents == nil && !a.isDouble()
	if watchList && !open.streams(ctx) || trigger && open.isFake() {
		a.double.Store(true)
		if _, own := w.(*watch.FakeWatcher); own { // without a goroutine or a tracker behind it
			a.refused.Store(open)
			return nil, stream.ErrDouble
		}
		return nil, errors.Join(stream.ErrDouble, open.Close())
	}
	return open, nil
}

// adaptedWatch is a client's watch. It returns all events that the client has ready.
type adaptedWatch[T Object] struct {
	watch watch.Interface
	first []stream.Item[T] // received before the first call of Next
	items []stream.Item[T] // of the last call of Next
	seen  *namespaces      // of the objects; nil if nobody needs them
}

// doublePause is how long a double may take for each initial event, which it has in memory.
const doublePause = time.Second

// doubleLimit is how long the initial events of a double may take together.
const doubleLimit = 30 * time.Second

// streams reports whether a watch can be the answer to a watch-list. The watches of client-go's doubles
// stay silent, or send the events of a plain watch. A double that plays a watch-list has its initial
// events and the bookmark ready, or sends them at once: a watch that goes on for doubleLimit is no answer.
// A RaceFreeFakeWatcher that is none is stopped, as an object tracker demands. So a test must not keep one
// for several requests.
func (s *adaptedWatch[T]) streams(ctx context.Context) bool {
	var pause time.Duration
	switch s.watch.(type) {
	case *watch.RaceFreeFakeWatcher: // buffered, as those of an object tracker
	case *watch.FakeWatcher:
		pause = doublePause
	default:
		return true
	}
	for began := time.Now(); time.Since(began) < doubleLimit; {
		event, ok := s.within(ctx, pause)
		if !ok || ctx.Err() != nil {
			return ctx.Err() != nil // the request has ended, so its answer does not matter
		}
		item := s.itemOf(event)
		s.first = append(s.first, item)
		if item.Kind == stream.Mark && item.Closing || item.Kind == stream.Failed {
			return true
		}
	}
	return false
}

// isFake reports whether a watch is one of client-go's doubles.
func (s *adaptedWatch[T]) isFake() bool {
	switch s.watch.(type) {
	case *watch.RaceFreeFakeWatcher, *watch.FakeWatcher:
		return true
	}
	return false
}

// within returns an event that comes within a pause, or that is there already.
func (s *adaptedWatch[T]) within(ctx context.Context, pause time.Duration) (event watch.Event, ok bool) {
	select {
	case event, ok = <-s.watch.ResultChan():
		return event, ok
	default:
	}
	if pause == 0 {
		return event, false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case event, ok = <-s.watch.ResultChan():
	case <-timer.C:
	case <-ctx.Done():
	}
	return event, ok
}

// maxTogether is the largest number of events that an adaptedWatch combines.
const maxTogether = 64

func (s *adaptedWatch[T]) Next(ctx context.Context, wake <-chan time.Time) ([]stream.Item[T], error) {
	if len(s.first) > 0 {
		s.items, s.first = s.first, nil
		return s.items, nil
	}
	clear(s.items)
	s.items = s.items[:0]
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wake:
		return nil, stream.ErrAwake
	case e, open := <-s.watch.ResultChan():
		if !open {
			return nil, io.EOF
		}
		s.items = append(s.items, s.itemOf(e))
	}
	for len(s.items) < maxTogether {
		select {
		case e, open := <-s.watch.ResultChan():
			if !open {
				return s.items, nil // the next call returns io.EOF
			}
			s.items = append(s.items, s.itemOf(e))
		default:
			return s.items, nil
		}
	}
	return s.items, nil
}

func (s *adaptedWatch[T]) Close() error {
	s.watch.Stop()
	return stream.Drain(s.watch.ResultChan())
}

func (s *adaptedWatch[T]) itemOf(from watch.Event) stream.Item[T] {
	item := itemOf[T](from)
	if s.seen != nil && item.IsWrite() {
		s.seen.add(item.Write.Object.GetNamespace())
	}
	return item
}

// itemOf converts an event of a client's watch.
func itemOf[T Object](from watch.Event) stream.Item[T] {
	item := stream.Item[T]{Kind: stream.Put}
	switch from.Type {
	case watch.Added:
		item.Write.Type = store.Addition
	case watch.Modified:
		item.Write.Type = store.Modification
	case watch.Deleted:
		item.Kind, item.Write.Type, item.Write.FinalStateKnown = stream.Delete, store.Deletion, true
	case watch.Bookmark:
		metadata := metadataOf(from.Object)
		if metadata == nil {
			return stream.Item[T]{Kind: stream.Failed, Err: stream.NewTypeError[T](from.Object)}
		}
		item = stream.Item[T]{Kind: stream.Mark, Version: metadata.GetResourceVersion(), Closing: metadata.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"}
		if err := stream.CheckVersion(item.Version); err != nil {
			return stream.Item[T]{Kind: stream.Failed, Err: err}
		}
		return item
	case watch.Error:
		if stream.IsNil(from.Object) {
			return stream.Item[T]{Kind: stream.Failed, Err: stream.NewTypeError[*metav1.Status](from.Object)}
		}
		return stream.Item[T]{Kind: stream.Failed, Err: stream.Bound(apierrors.FromObject(from.Object))}
	default:
		return stream.Item[T]{Kind: stream.Failed, Err: &answer.EventTypeError{Type: string(from.Type)}}
	}
	// If the object is not a T, the server and this program do not mean the same resource.
	object, ok := any(from.Object).(T)
	var err error
	switch {
	case isTable(from.Object):
		err = ErrTable
	case !ok || stream.IsNil(object):
		err = stream.NewTypeError[T](from.Object)
	default:
		item.Version, item.Write.Object = object.GetResourceVersion(), object
		if err := stream.CheckVersion(item.Version); err != nil {
			return stream.Item[T]{Kind: stream.Failed, Err: err}
		}
		return item
	}
	failed := stream.Item[T]{Kind: stream.Failed, Err: err}
	if metadata := metadataOf(from.Object); metadata != nil {
		failed.Write.Key = keyOf(metadata)
	}
	return failed
}

// metadataOf returns the metadata of an object, or nil if it has none.
func metadataOf(object runtime.Object) metav1.Object {
	if stream.IsNil(object) {
		return nil
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return metadata
}

// getterIn is a client that gets objects of any namespace. Get of a Client takes only a name.
type getterIn[T any] interface {
	GetIn(ctx context.Context, namespace, name string) (T, error)
}

// errHidden means that a client does not reveal what it leaves out.
var errHidden = errors.New("client does not find the object, but hides its namespace, or selects by itself: pass informer.WithGet, or a client of client-go that is not wrapped")

// Lookup implements [stream.Lookups]. Get of a client of all namespaces cannot name one. So such a
// client of another package finds nothing, although the object exists, and only a list is proof. The
// same list serves a client that has no Get.
func (a *adapter[T, L]) Lookup(ctx context.Context, key store.Key) (types.UID, bool, error) {
	if stream.IsNil(a.client) {
		return "", false, ErrNoClient
	}
	anywhere, ok := a.client.(getterIn[T])
	var object T
	var err error
	if ok {
		object, err = anywhere.GetIn(ctx, key.Namespace, key.Name)
		ok = !errors.Is(err, stream.ErrNoGet)
	}
	if !ok {
		object, err = a.client.Get(ctx, key.Name, metav1.GetOptions{})
	}
	isUnder := func(object T) bool {
		return !stream.IsNil(object) && object.GetName() == key.Name && object.GetNamespace() == key.Namespace
	}
	everywhere := a.includes(key.Namespace)
	noPath := false
	switch {
	case errors.Is(err, stream.ErrNoGet):
	case err == nil && isUnder(object):
		if !ok { // GetIn reaches namespaces that the lists of a wrapper may leave out
			a.seen.add(key.Namespace)
		}
		return object.GetUID(), true, nil
	case err == nil && !stream.IsNil(object) && object.GetNamespace() != key.Namespace: // the client is of one namespace
		return "", false, store.ErrOutOfScope
	case stream.IsObjectMissing(err):
		if ok || key.Namespace == "" {
			return "", false, nil
		}
	case apierrors.IsNotFound(err), errors.Is(err, client.ErrNoNamespace):
		if ok || key.Namespace == "" {
			return "", false, stream.Bound(err)
		}
		// Its requests name no namespace, if the error says so. Or the resource is not served.
		everywhere, noPath = everywhere || errors.Is(err, client.ErrNoNamespace), missing.Path(err)
	case err != nil:
		return "", false, stream.Bound(err)
	}
	// Servers answer such a list as fast as a Get, because the name and the namespace are the key in
	// their storage. Test doubles ignore field selectors.
	under := fields.Set{"metadata.name": key.Name}
	if key.Namespace != "" {
		under["metadata.namespace"] = key.Namespace
	}
	opts := metav1.ListOptions{FieldSelector: under.AsSelector().String(), Limit: 1}
	for {
		replaced := false // the client replaces field selectors
		var uid types.UID
		exists := false
		p, err := a.List(ctx, opts, stream.Wants[T]{Take: func(i *stream.Item[T]) {
			if exists {
				return
			}
			if isUnder(i.Write.Object) {
				uid, exists = i.Write.Object.GetUID(), true
			} else {
				replaced = true
			}
		}})
		switch opts.Continue = p.Continue; {
		case err != nil:
			return "", false, err
		case exists:
			return uid, true, nil
		case replaced && p.Continue != "", p.Continue == "" && a.selects:
			return "", false, errHidden
		case p.Continue == "":
			if !everywhere && noPath {
				// The resource is served now, as the list shows. So a second 404 is that of a path without a
				// namespace, unless the resource comes and goes just then.
				_, err := a.client.Get(ctx, key.Name, metav1.GetOptions{})
				everywhere = missing.Path(err)
			}
			if !everywhere {
				return "", false, errHidden
			}
			return "", false, nil
		}
	}
}
