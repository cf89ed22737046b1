package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	kubeclient "github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// referenceInformer is an informer of a kind that the cache holds by reference. Two informers watch
// the metadata of all objects and the owned objects. Handlers follow a third one, which merges
// both.
type referenceInformer struct {
	*clientgo.SharedIndexInformer[client.Object] // the merged one
	metas, owned                                 *sharedInformer

	kind      schema.GroupVersionKind
	merged    *merged
	whole     *ondemand.Objects[client.Object]
	transform toolscache.TransformFunc // set before the first read
}

// reference returns the reference of a kind. kind is empty if only the example is known.
func (k *kinds) reference(kind schema.GroupVersionKind, example runtime.Object) (r Reference, ok bool) {
	if _, only := example.(*metav1.PartialObjectMetadata); only || len(k.references) == 0 {
		return r, false
	}
	return ofKind(k, k.references, kind, example)
}

// ofKind returns the value of a kind. kind is empty if only the example is known.
func ofKind[V any](k *kinds, values map[schema.GroupVersionKind]V, kind schema.GroupVersionKind, example runtime.Object) (v V, ok bool) {
	possible := []schema.GroupVersionKind{kind}
	if kind.Empty() {
		possible = []schema.GroupVersionKind{example.GetObjectKind().GroupVersionKind()}
		if possible[0].Kind == "" {
			possible, _, _ = k.scheme.ObjectKinds(example)
		}
	}
	for _, kind := range possible {
		if v, ok = values[kind]; ok {
			return v, true
		}
	}
	return v, false
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

	owned := t
	requirements, some := reference.Owned.Requirements()
	owned.labels = t.labels.Add(requirements...)
	i.owned = owned.informer(from, stating(t.kind))
	parts := []*sharedInformer{i.metas, i.owned}
	if !some {
		parts = parts[:1]
		if err := i.owned.Informer().Restore(nil, "0"); err != nil {
			return nil, err
		}
	}

	views := [2]*store.View[client.Object]{i.metas.Informer().Cache(), i.owned.Informer().Cache()}
	limits := []ondemand.Option{ondemand.WithMaxBytes(reference.MaxBytes)}
	if reference.MaxObjects != 0 {
		limits = append(limits, ondemand.WithMaxObjects(reference.MaxObjects))
	}
	i.whole, err = ondemand.NewOwned(func(namespace string) requester { return requester{i, from.In(namespace)} }, views[0], views[1], limits...)
	if err != nil {
		return nil, err
	}
	i.merged = newMerged(views[0], views[1], reference.Owned, some)
	i.merged.parts = parts
	shown := informer.NewFed(nil, store.ObjectKey[client.Object], i.merged.feed, informer.WithName(t.name(t.example)))
	i.merged.shown = shown.Cache()
	i.merged.follow()
	i.SharedIndexInformer = clientgo.AsSharedIndexInformer(shown, clientgo.WithResync(t.resync))
	return i, nil
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
	done, err := finished(object, stating(r.of.kind), r.of.transform, false)
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
	defer i.whole.Close()
	defer sizes.add(i)()
	i.SharedIndexInformer.RunWithContext(ctx)
}

// Run is RunWithContext until a channel is closed.
func (i *referenceInformer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// LastSyncResourceVersion returns the version up to which both caches have every change. The merged
// cache has the versions of its objects, which come from two watches and so may go back.
func (i *referenceInformer) LastSyncResourceVersion() string {
	metas, owned := i.metas.LastSyncResourceVersion(), i.owned.LastSyncResourceVersion()
	if i.merged.owned.runs && !newer(owned, metas) {
		return owned
	}
	return metas
}

// SetTransform sets a function for whole objects and for metadata.
func (i *referenceInformer) SetTransform(transform toolscache.TransformFunc) error {
	i.transform = transform
	return errors.Join(i.metas.SetTransform(transform), i.owned.SetTransform(transform))
}

// SetWatchErrorHandler sets a handler for both watches.
func (i *referenceInformer) SetWatchErrorHandler(handler toolscache.WatchErrorHandler) error {
	return errors.Join(i.metas.SetWatchErrorHandler(handler), i.owned.SetWatchErrorHandler(handler))
}

// SetWatchErrorHandlerWithContext sets a handler for both watches.
func (i *referenceInformer) SetWatchErrorHandlerWithContext(handler toolscache.WatchErrorHandlerWithContext) error {
	return errors.Join(i.metas.SetWatchErrorHandlerWithContext(handler), i.owned.SetWatchErrorHandlerWithContext(handler))
}

// AddIndexers adds indexes of the owned objects.
func (i *referenceInformer) AddIndexers(indexers toolscache.Indexers) error {
	return i.owned.AddIndexers(indexers)
}

// GetStore returns the owned and the requested objects.
func (i *referenceInformer) GetStore() toolscache.Store { return i.GetIndexer() }

// GetIndexer returns the owned and the requested objects.
func (i *referenceInformer) GetIndexer() toolscache.Indexer {
	return referenceIndexer{i.owned.GetIndexer(), i}
}

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
