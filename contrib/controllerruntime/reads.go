package controllerruntime

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// readCache is a cache of controller-runtime that reads Go types from the store of their informer.
// controller-runtime looks up the kind of each read in its scheme, and copies each object into a
// struct that it then copies into the caller's.
//
// A read that needs more than a synced informer goes to the embedded cache, which starts informers,
// waits for them, and makes errors.
type readCache struct {
	cache.Cache
	readers *readers
}

// NeedLeaderElection lets a manager treat the cache like the embedded one.
func (c *readCache) NeedLeaderElection() bool {
	runnable, ok := c.Cache.(manager.LeaderElectionRunnable)
	return !ok || runnable.NeedLeaderElection() // a manager runs a Runnable without the method on the leader
}

// Get copies the object of a key into out.
func (c *readCache) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	if r := c.readers.of(out); r != nil && r.get(key, out, opts) {
		return nil
	}
	return c.Cache.Get(ctx, key, out, opts...)
}

// List copies the objects that the options select into out.
func (c *readCache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	if r := c.readers.of(out); r != nil && r.list(out, opts) {
		return nil
	}
	return c.Cache.List(ctx, out, opts...)
}

// RemoveInformer stops and removes the informer of a kind.
func (c *readCache) RemoveInformer(ctx context.Context, object client.Object) error {
	c.readers.remove(object) // first, because another read can make the next informer at once
	return c.Cache.RemoveInformer(ctx, object)
}

// readers holds the readers of a cache by Go type: the type of the objects, and of their list.
type readers struct {
	scheme   *runtime.Scheme
	defaults readOptions
	byKind   map[schema.GroupVersionKind]readOptions // of kinds with options of their own

	mu     sync.Mutex                               // held while byType changes
	byType atomic.Pointer[map[reflect.Type]*reader] // never changed in place
}

// readOptions are the options for the reads of a kind.
type readOptions struct {
	share   bool // reads share their results with the store
	several bool // the kind has an informer for each of several namespaces
}

// newReaders reads the options at once: the caller may change their maps later, as with those of
// cache.New.
func newReaders(opts cache.Options) *readers {
	r := &readers{
		scheme: opts.Scheme,
		byKind: map[schema.GroupVersionKind]readOptions{},
	}
	copied := someCopy(opts.DefaultNamespaces)
	r.defaults = readOptions{share: isTrue(opts.DefaultUnsafeDisableDeepCopy) && !copied, several: len(opts.DefaultNamespaces) > 0}
	for example, by := range opts.ByObject {
		kind, err := apiutil.GVKForObject(example, opts.Scheme)
		if err != nil {
			continue // cache.New returns this error
		}
		of := r.defaults
		if by.Namespaces != nil {
			of.several = len(by.Namespaces) > 0
		}
		of.share = isTrue(cmp.Or(by.UnsafeDisableDeepCopy, opts.DefaultUnsafeDisableDeepCopy)) && !copied && !someCopy(by.Namespaces)
		r.byKind[kind] = of
	}
	r.byType.Store(&map[reflect.Type]*reader{})
	return r
}

// of returns the reader of a type, or nil.
func (r *readers) of(out runtime.Object) *reader { return (*r.byType.Load())[reflect.TypeOf(out)] }

// add adds a reader of an informer that holds all objects of the example's type.
func (r *readers) add(example runtime.Object, informer *sharedInformer) {
	switch example.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		return // kinds share these types
	}
	kinds, _, err := r.scheme.ObjectKinds(example)
	if err != nil || len(kinds) != 1 {
		return
	}
	of := r.optionsOf(kinds[0])
	if of.several {
		return
	}
	added := newReader(informer, kinds[0], reflect.TypeOf(example), of.share)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := maps.Clone(*r.byType.Load())
	now[added.object] = added
	kind := kinds[0].GroupVersion().WithKind(kinds[0].Kind + "List")
	if list, err := r.scheme.New(kind); err == nil && added.addList(reflect.TypeOf(list)) {
		now[reflect.TypeOf(list)] = added
	}
	r.byType.Store(&now)
}

// optionsOf returns the options of a kind.
func (r *readers) optionsOf(kind schema.GroupVersionKind) readOptions {
	if of, ok := r.byKind[kind]; ok {
		return of
	}
	return r.defaults
}

func isTrue(option *bool) bool { return option != nil && *option }

// someCopy reports whether reads of one of the namespaces have to be copied. Then those of all are.
func someCopy(namespaces map[string]cache.Config) bool {
	for _, config := range namespaces {
		if config.UnsafeDisableDeepCopy != nil && !*config.UnsafeDisableDeepCopy {
			return true
		}
	}
	return false
}

// remove removes the reader of an object's type.
func (r *readers) remove(object client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	removed := r.of(object)
	now := maps.Clone(*r.byType.Load())
	maps.DeleteFunc(now, func(_ reflect.Type, each *reader) bool { return each == removed })
	r.byType.Store(&now)
}

// reader reads the objects of one type from the store of their informer.
type reader struct {
	informer *sharedInformer
	synced   <-chan struct{}
	kind     schema.GroupVersionKind
	version  string       // API version of the kind
	object   reflect.Type // a pointer
	items    []int        // the field of the list type with the objects
	share    bool         // reads share their results with the store by default
	copyInto func(from client.Object, to reflect.Value)
}

func newReader(informer *sharedInformer, kind schema.GroupVersionKind, object reflect.Type, share bool) *reader {
	r := &reader{
		informer: informer, synced: informer.Informer().Synced(), kind: kind, version: kind.GroupVersion().String(), object: object, share: share,
	}
	r.copyInto = func(from client.Object, to reflect.Value) {
		to.Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
	}
	// The function of generated code saves the struct that DeepCopyObject allocates.
	method, ok := object.MethodByName("DeepCopyInto")
	if ok && method.Type.NumIn() == 2 && method.Type.In(1) == object && method.Type.NumOut() == 0 {
		r.copyInto = func(from client.Object, to reflect.Value) {
			to.Elem().SetZero() // a function that is not generated may copy only the fields that are set
			method.Func.Call([]reflect.Value{reflect.ValueOf(from), to})
		}
	}
	return r
}

// addList reports whether a list type has the objects as structs, and notes their field.
func (r *reader) addList(list reflect.Type) bool {
	field, ok := list.Elem().FieldByName("Items")
	if !ok || field.Type.Kind() != reflect.Slice || reflect.PointerTo(field.Type.Elem()) != r.object {
		return false
	}
	r.items = field.Index
	return true
}

// ready reports whether the informer has synced and still runs. A RemoveInformer that looked for the
// reader just before another read made it stops the informer, but leaves the reader.
func (r *reader) ready() bool { return lifecycle.IsClosed(r.synced) && !r.informer.IsStopped() }

// get copies an object into out, and reports whether it did.
func (r *reader) get(key client.ObjectKey, out client.Object, opts []client.GetOption) bool {
	if !r.ready() {
		return false
	}
	object, ok := r.informer.Informer().Cache().Get(store.Key{Namespace: key.Namespace, Name: key.Name})
	if !ok || reflect.TypeOf(object) != r.object || object == out { // copyInto would erase its own source
		return false
	}
	share := r.share
	if len(opts) > 0 {
		o := client.GetOptions{}
		o.ApplyOptions(opts)
		share = share || isTrue(o.UnsafeDisableDeepCopy)
	}
	r.give(object, reflect.ValueOf(out), share)
	return true
}

// list copies objects into out, and reports whether it did.
func (r *reader) list(out client.ObjectList, opts []client.ListOption) bool {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	if o.Continue != "" || !r.ready() {
		return false
	}
	objects, ok := r.selected(&o)
	if !ok {
		return false
	}
	field := reflect.ValueOf(out).Elem().FieldByIndex(r.items)
	items := reflect.MakeSlice(field.Type(), len(objects), len(objects))
	share := r.share || isTrue(o.UnsafeDisableDeepCopy)
	for i, object := range objects {
		r.give(object, items.Index(i).Addr(), share)
	}
	field.Set(items)
	out.SetContinue("continue-not-supported") // as controller-runtime does
	return true
}

// give copies an object, with its parts unless the result shares them with the store.
func (r *reader) give(object client.Object, to reflect.Value, share bool) {
	if share {
		to.Elem().Set(reflect.ValueOf(object).Elem())
		return
	}
	r.copyInto(object, to)
	kind := to.Interface().(client.Object).GetObjectKind()
	if meta, ok := kind.(*metav1.TypeMeta); ok {
		meta.APIVersion, meta.Kind = r.version, r.kind.Kind // without a new string
	} else {
		kind.SetGroupVersionKind(r.kind)
	}
}

// selected returns the objects that options select. It returns false if an object has another type,
// and for field selectors that need more than one lookup in an index.
func (r *reader) selected(o *client.ListOptions) (objects []client.Object, ok bool) {
	ok = true
	take := func(object client.Object) (more bool) {
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			return true
		}
		if ok = reflect.TypeOf(object) == r.object; ok {
			objects = append(objects, object)
		}
		return ok && (o.Limit <= 0 || int64(len(objects)) < o.Limit)
	}
	if o.FieldSelector != nil {
		found, exact := r.indexed(o)
		for _, object := range found {
			if !take(object.(client.Object)) {
				break
			}
		}
		return objects, ok && exact
	}
	state := r.informer.Informer().Cache().Snapshot()
	all := state.Namespace(o.Namespace)
	if o.Namespace == "" {
		all = state.All()
		if o.LabelSelector == nil && o.Limit <= 0 {
			objects = make([]client.Object, 0, state.Len())
		}
	}
	for _, object := range all {
		if !take(object) {
			break
		}
	}
	return objects, ok
}

// indexed returns the objects of a field selector that asks for one value of an indexed field.
func (r *reader) indexed(o *client.ListOptions) ([]any, bool) {
	required := o.FieldSelector.Requirements()
	if len(required) != 1 || required[0].Operator != selection.Equals && required[0].Operator != selection.DoubleEquals {
		return nil, false
	}
	namespace := o.Namespace
	if namespace == "" {
		namespace = "__all_namespaces"
	}
	// controller-runtime's IndexField makes indexes and values with these names.
	found, err := r.informer.GetIndexer().ByIndex("field:"+required[0].Field, namespace+"/"+required[0].Value)
	return found, err == nil
}
