package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// referringCache is a cache with kinds that it holds by reference. The cache of controller-runtime
// finds the informer and checks that it may be read. If the informer does not hold an object, Get
// requests it.
type referringCache struct {
	cache.Cache
	kinds *kinds
}

// Get returns an object that the cache holds, or requests it.
func (c *referringCache) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	err := c.Cache.Get(ctx, key, out, opts...)
	missing, ok := errors.AsType[*notHeldError](err)
	if !ok {
		return err
	}
	object, err := missing.request(ctx)
	if err != nil {
		return err
	}
	asked := (&client.GetOptions{}).ApplyOptions(opts)
	copied := asked.UnsafeDisableDeepCopy == nil || !*asked.UnsafeDisableDeepCopy
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
			if err := c.Cache.List(ctx, list, opts...); err != nil {
				return err
			}
			return check() // a selector may be removed during the read, which waits for the first list
		}
	}
	return c.Cache.List(ctx, list, opts...)
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
