package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	kubeclient "github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// referenceInformer is an informer of a kind that the cache holds by reference. One informer watches
// the metadata of all objects, and one for each selector the owned objects. Handlers follow another
// one, which merges them.
type referenceInformer struct {
	*clientgo.SharedIndexInformer[client.Object] // the merged one
	oneRun
	metas *sharedInformer

	kind      schema.GroupVersionKind
	merged    *merged
	indexer   *clientgo.Indexer[client.Object] // of the owned objects
	whole     *ondemand.Objects[client.Object]
	selectors *OwnedSelectors

	mu        sync.Mutex // protects the fields below it, which are for the informers of new selectors
	transform toolscache.TransformFunc
	onError   toolscache.WatchErrorHandlerWithContext
}

// reference returns the reference of a kind. kind is empty if only the example is known.
func (k *kinds) reference(kind schema.GroupVersionKind, example runtime.Object) (r Reference, ok bool) {
	if _, only := example.(*metav1.PartialObjectMetadata); only || len(k.references) == 0 {
		return r, false
	}
	possible := []schema.GroupVersionKind{kind}
	if kind.Empty() {
		possible = []schema.GroupVersionKind{example.GetObjectKind().GroupVersionKind()}
		if possible[0].Kind == "" {
			possible, _, _ = k.scheme.ObjectKinds(example)
		}
	}
	for _, kind := range possible {
		if r, ok = k.references[kind]; ok {
			return r, true
		}
	}
	return r, false
}

// referring returns an informer of a kind that the cache holds by reference. err says why the kind
// cannot be decoded here. Then the kind cannot be cached by reference either.
func (k *kinds) referring(t target, err error, reference Reference, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	var i *referenceInformer
	if err == nil {
		i, err = k.newReferenceInformer(t, reference)
	}
	if err == nil {
		err = i.SetTransform(nil)
	}
	if err == nil {
		err = i.AddIndexers(indexers)
	}
	if err != nil {
		return refusing{err: fmt.Errorf("%w: %T: %w", ErrReference, t.example, err)}
	}
	return i
}

func (k *kinds) newReferenceInformer(t target, reference Reference) (*referenceInformer, error) {
	from, err := k.client(t)
	if err != nil {
		return nil, err
	}
	only := t
	only.example = &metav1.PartialObjectMetadata{}
	metadata, err := k.client(only)
	if err != nil {
		return nil, err
	}
	i := &referenceInformer{kind: t.kind}
	example := reflect.TypeOf(t.example).Elem()
	i.metas = only.informer(metadata, func(object client.Object) (client.Object, error) { return stub(example, t.kind, object) })

	i.merged, i.selectors = newMerged(), reference.Selectors
	i.merged.place = place{k, t.kind, t.namespace}
	i.indexer = clientgo.AsReadOnlyIndexer(&i.merged.whole.View)
	limits := []ondemand.Option{ondemand.WithMaxBytes(reference.MaxBytes)}
	if reference.MaxObjects != 0 {
		limits = append(limits, ondemand.WithMaxObjects(reference.MaxObjects))
	}
	metas := i.metas.Informer().Cache()
	i.whole, err = ondemand.New(func(namespace string) requester { return requester{i, from.In(namespace)} }, metas, limits...)
	if err != nil {
		return nil, err
	}
	i.merged.read = i.whole.AddOwned
	i.merged.newOwned = func(selector labels.Selector) *sharedInformer {
		requirements, _ := selector.Requirements()
		owned := t
		owned.labels = t.labels.Add(requirements...)
		return i.prepared(owned.informer(from, stating(t.kind)))
	}
	shown := informer.NewFed(nil, store.ObjectKey[client.Object], i.merged.feed, informer.WithName(t.name(t.example)))
	i.merged.shown, i.merged.report = shown.Cache(), i.report
	i.merged.follow(metas, i.metas)
	if _, some := reference.Owned.Requirements(); some {
		i.merged.add(reference.Owned)
	}
	i.SharedIndexInformer = clientgo.AsSharedIndexInformer(shown, clientgo.WithResync(t.resync))
	return i, nil
}

// report sends a failure to where the failures of other caches go.
func (i *referenceInformer) report(ctx context.Context, err error) {
	message := "Object was not stored"
	if errors.Is(err, ondemand.ErrVersions) {
		message = "Handlers and lists get no change until the next list of the server"
	}
	utilruntime.HandleErrorWithContext(ctx, err, message, "reflector", i.Informer().Name())
}

// prepared gives an informer of owned objects the functions that this one has.
func (i *referenceInformer) prepared(owned *sharedInformer) *sharedInformer {
	i.mu.Lock()
	defer i.mu.Unlock()
	// The informer does not run yet, so these return no error.
	_ = owned.SetTransform(i.transform)
	if i.onError != nil {
		_ = owned.SetWatchErrorHandlerWithContext(i.onError)
	}
	return owned
}

// stub returns an object of a type with the metadata of another object.
func stub(of reflect.Type, kind schema.GroupVersionKind, from client.Object) (client.Object, error) {
	to := reflect.New(of).Interface().(client.Object)
	if _, ok := to.(runtime.Unstructured); ok {
		to.GetObjectKind().SetGroupVersionKind(kind)
	}
	to.SetNamespace(from.GetNamespace())
	to.SetName(from.GetName())
	to.SetGenerateName(from.GetGenerateName())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetGeneration(from.GetGeneration())
	to.SetSelfLink(from.GetSelfLink())
	to.SetCreationTimestamp(from.GetCreationTimestamp())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	to.SetDeletionGracePeriodSeconds(from.GetDeletionGracePeriodSeconds())
	to.SetLabels(from.GetLabels())
	to.SetAnnotations(from.GetAnnotations())
	to.SetFinalizers(from.GetFinalizers())
	to.SetOwnerReferences(from.GetOwnerReferences())
	to.SetManagedFields(from.GetManagedFields())
	return to, nil
}

// requester requests objects as the cache would store them.
type requester struct {
	of   *referenceInformer
	from *kubeclient.Resource[client.Object]
}

func (r requester) Get(ctx context.Context, name string, opts metav1.GetOptions) (client.Object, error) {
	object, err := r.from.Get(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	r.of.mu.Lock()
	transform := r.of.transform
	r.of.mu.Unlock()
	done, err := finished(object, stating(r.of.kind), transform, false)
	if err != nil {
		return nil, fmt.Errorf("transform: %w", err)
	}
	transformed, ok := done.(client.Object)
	if !ok {
		return nil, fmt.Errorf("transform returned a %T, want a %T", done, object)
	}
	return transformed, nil
}

// RunWithContext runs the informers until ctx ends.
func (i *referenceInformer) RunWithContext(ctx context.Context) {
	if !i.first(ctx, i) {
		return
	}
	defer i.whole.Close()
	defer sizes.add(i)()
	defer i.selectors.join(i.merged)()
	i.SharedIndexInformer.RunWithContext(ctx)
}

// Run is RunWithContext until a channel is closed.
func (i *referenceInformer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// LastSyncResourceVersion returns the version up to which all caches have every change.
func (i *referenceInformer) LastSyncResourceVersion() string { return i.merged.version() }

// GetController returns a controller with the same sync state as the informer. Its Run does nothing.
func (i *referenceInformer) GetController() toolscache.Controller {
	return referenceController{i.SharedIndexInformer.GetController(), i}
}

// referenceController has the version of its informer, which is not that of the merged cache.
type referenceController struct {
	toolscache.Controller
	of *referenceInformer
}

func (c referenceController) LastSyncResourceVersion() string { return c.of.LastSyncResourceVersion() }

// sources returns the informers of the owned objects.
func (i *referenceInformer) sources() []*source {
	i.merged.mu.Lock()
	defer i.merged.mu.Unlock()
	return slices.Clone(i.merged.owned)
}

// SetTransform sets a function for whole objects and for metadata. Objects of the metadata whose labels
// it changes also keep those of the server.
func (i *referenceInformer) SetTransform(transform toolscache.TransformFunc) error {
	err := i.metas.SharedIndexInformer.SetTransform(func(in any) (any, error) {
		before := in.(client.Object).GetLabels()
		out, err := finished(in.(client.Object), i.metas.prepare, transform, i.metas.copies)
		if object, ok := out.(client.Object); ok && err == nil && !maps.Equal(before, object.GetLabels()) {
			return &labelled{object, before}, nil
		}
		return out, err
	})
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.transform = transform
	i.mu.Unlock()
	for _, p := range i.sources() {
		err = errors.Join(err, p.informer.SetTransform(transform))
	}
	return err
}

// SetWatchErrorHandler sets a handler for all watches.
func (i *referenceInformer) SetWatchErrorHandler(handler toolscache.WatchErrorHandler) error {
	if handler == nil {
		return i.SetWatchErrorHandlerWithContext(nil)
	}
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets a handler for all watches.
func (i *referenceInformer) SetWatchErrorHandlerWithContext(handler toolscache.WatchErrorHandlerWithContext) error {
	err := i.metas.SetWatchErrorHandlerWithContext(handler)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.onError = handler
	i.mu.Unlock()
	for _, p := range i.sources() {
		err = errors.Join(err, p.informer.SetWatchErrorHandlerWithContext(handler))
	}
	return err
}

// AddIndexers adds indexes of the owned objects.
func (i *referenceInformer) AddIndexers(indexers toolscache.Indexers) error {
	if i.IsStopped() {
		return i.SharedIndexInformer.AddIndexers(indexers) // returns an error
	}
	return i.indexer.AddIndexers(indexers)
}

// GetStore returns the owned and the requested objects.
func (i *referenceInformer) GetStore() toolscache.Store { return i.GetIndexer() }

// GetIndexer returns the owned and the requested objects.
func (i *referenceInformer) GetIndexer() toolscache.Indexer { return referenceIndexer{i.indexer, i} }

// refusing is an informer that controller-runtime cannot use: the error of SetTransform becomes the
// error of the read or of GetInformer.
type refusing struct {
	toolscache.SharedIndexInformer
	err error
}

func (r refusing) SetTransform(toolscache.TransformFunc) error { return r.err }

func (r refusing) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return r.err
}

// referringCache is a cache with kinds that it holds by reference. The cache of controller-runtime
// finds the informer and checks that it may be read. If the informer does not hold an object, Get
// requests it.
type referringCache struct {
	*readCache
	kinds *kinds
}

// Get returns an object that the cache holds, or requests it.
func (c *referringCache) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	var object client.Object
	var missing *notHeldError
	for again := true; ; again = false {
		err := c.readCache.Get(ctx, key, out, opts...)
		if !errors.As(err, &missing) {
			return err
		}
		if object, err = missing.request(ctx); err == nil {
			break
		}
		if !again || !errors.Is(err, ondemand.ErrClosed) { // RemoveInformer closed it
			return err
		}
	}
	asked := (&client.GetOptions{}).ApplyOptions(opts)
	copied := !isTrue(asked.UnsafeDisableDeepCopy) && !c.readers.optionsOf(missing.of.kind).share
	if copied {
		object = object.DeepCopyObject().(client.Object)
	}
	to, from := reflect.ValueOf(out), reflect.ValueOf(object)
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("cache requested a %s, want a %s", from.Type(), to.Type())
	}
	to.Elem().Set(from.Elem())
	if copied {
		out.GetObjectKind().SetGroupVersionKind(missing.of.kind)
	}
	return nil
}

// List returns an error that wraps [ErrNotOwned] for objects that the cache does not hold whole.
func (c *referringCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, only := list.(*metav1.PartialObjectMetadataList); !only {
		kind, err := apiutil.GVKForObject(list, c.kinds.scheme)
		if err != nil {
			return err
		}
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
		if reference, ok := c.kinds.references[kind]; ok {
			asked := (&client.ListOptions{}).ApplyOptions(opts)
			where := place{c.kinds, kind, asked.Namespace}
			check := func() error {
				if reference.owns(asked.LabelSelector, where) {
					return nil
				}
				return fmt.Errorf("list %s with labels %q, owned are %q: %w", kind, text(asked), reference.owned(where), ErrNotOwned)
			}
			if err := check(); err != nil {
				return err
			}
			if err := c.readCache.List(ctx, list, opts...); err != nil {
				return err
			}
			return check() // a selector may be removed during the read, which waits for the first list
		}
	}
	return c.readCache.List(ctx, list, opts...)
}

func text(opts *client.ListOptions) string {
	if opts.LabelSelector == nil {
		return ""
	}
	return opts.LabelSelector.String()
}

// referenceIndexer reads the owned objects, and by key also the requested ones.
type referenceIndexer struct {
	*clientgo.Indexer[client.Object] // of the owned objects, as handlers know them
	of                               *referenceInformer
}

// GetByKey returns an object, or a notHeldError if it has to be requested first.
func (x referenceIndexer) GetByKey(text string) (any, bool, error) {
	key := store.Key{Name: text}
	if namespace, name, ok := strings.Cut(text, "/"); ok {
		key = store.Key{Namespace: namespace, Name: name}
	}
	if object, ok := x.of.whole.Cached(key); ok {
		return object, true, nil
	}
	return nil, false, &notHeldError{of: x.of, key: key}
}

// LastStoreSyncResourceVersion returns the version of what handlers get.
func (x referenceIndexer) LastStoreSyncResourceVersion() string {
	return x.of.Informer().Cache().ResourceVersion()
}

// notHeldError means that an object has to be requested. Only [referringCache] sees it.
type notHeldError struct {
	of  *referenceInformer
	key store.Key
}

func (e *notHeldError) Error() string {
	return fmt.Sprintf("cache holds %s %s by reference: request it", e.of.kind.Kind, e.key)
}

// request requests the object.
func (e *notHeldError) request(ctx context.Context) (client.Object, error) {
	object, err := e.of.whole.Get(ctx, e.key)
	if _, ok := errors.AsType[*ondemand.NotFoundError](err); ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: e.of.kind.Group, Resource: e.of.kind.Kind}, e.key.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s by reference: %w", e.of.kind.Kind, e.key, err)
	}
	return object, nil
}
