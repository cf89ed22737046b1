package reflector

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
)

// Lookup asks the server whether an object exists, and returns its UID. Use it before a cleanup: when
// an object merely stops matching a selector, the server sends the same DELETED event as for a
// deletion. exists is false without an error only if the server says that there is no such object.
// The cluster of the key does not count.
//
// Lookup needs the permission to get the objects, beside list and watch. It sends one GET. A client of
// another package whose namespace it does not know, and one without Get, is also asked, or only asked,
// for a list with the name as field selector. The answer does not come from a cache of the server. If such
// a client may be of other namespaces, because it has shown no object of the key's lately, or if it is known
// to select objects by itself, an empty list proves nothing, and Lookup returns an error. A client whose Get
// names no namespace counts as one of all namespaces: if you wrap it so that its List and Watch have only some
// of them, hide its Get, for example with [client.ListWatch].
//
// For a key in another namespace than the client's, Lookup returns a [store.ErrOutOfScope] without a
// request. A replay has no server, and finds nothing. Lookup may be called from any goroutine, also
// while Run does not run. Give ctx a deadline.
func (r *KubernetesResourceReflector[T]) Lookup(ctx context.Context, key store.Key) (uid types.UID, exists bool, err error) {
	if r.isElsewhere(key) {
		return "", false, fmt.Errorf("reflector %s looks up %s: %w: its client is of the namespace %.64q", r.name, key, store.ErrOutOfScope, r.namespace)
	}
	if err := r.source.Check(); err != nil {
		return "", false, err
	}
	if of, ok := r.lookups().(stream.Lookups); ok {
		uid, exists, err = of.Lookup(ctx, key)
	} else {
		err = stream.ErrNoGet
	}
	if err != nil {
		return "", false, fmt.Errorf("reflector %s looks up %s: %w", r.name, key, err)
	}
	return uid, exists, nil
}

// Covers reports whether the store holds an object of a key if one exists, once the reflector is synced and
// as far as its watch has come. It returns false if the reflector or, as with the tweak of a factory, its
// client has a selector, if the reflector has shards, and for a key in another namespace than the client's.
// It also returns false for a key with a namespace if the client is of another package, and no generated,
// dynamic or metadata client of client-go, and has shown no object of that namespace lately: it may be a
// client of other ones.
func (r *KubernetesResourceReflector[T]) Covers(key store.Key) bool {
	return r.labelSelector == "" && r.fieldSelector == "" && r.shards == nil && !r.selects &&
		!r.isElsewhere(key) && r.includes(key.Namespace)
}

// includes reports whether the client is known to be of all namespaces, or of the given one.
func (r *KubernetesResourceReflector[T]) includes(namespace string) bool {
	of, ok := r.source.(interface{ includes(string) bool })
	return !ok || of.includes(namespace)
}

// isElsewhere reports whether a key is in another namespace than the client's.
func (r *KubernetesResourceReflector[T]) isElsewhere(key store.Key) bool {
	return r.namespace != "" && key.Namespace != "" && key.Namespace != r.namespace
}

// lookupsOf returns the source for lookups. Get of a generated client of all namespaces cannot name
// one, but its REST client can.
func lookupsOf[T Object, L any](of Client[T, L], from stream.Source[T]) stream.Source[T] {
	if _, plain := from.(*adapter[T, L]); plain {
		if typed, err := client.FromTypedClient(of); err == nil {
			return typed.Source()
		}
	}
	return from
}

// Selects reports whether the store may come to hold an object in the given state. It returns false
// in these cases: the label selector does not match, a field selector on the name or the namespace
// does not match, the object is in no shard of [WithShard], or the client is a [client.Resource] of
// another namespace. Selects does not check other fields, nor the namespace of another type of
// client.
func (r *KubernetesResourceReflector[T]) Selects(object metav1.Object) bool {
	of := r.source.About()
	return (of.Claimed || of.Namespace == "" || of.Namespace == object.GetNamespace()) && (r.labels == nil || r.labels.Matches(labels.Set(object.GetLabels()))) &&
		(r.fields == nil || mayMatch(r.fields, object)) && r.shards.Has(object)
}

// ClusterScoped reports whether the objects have no namespaces, if that is known: the client is a
// [client.Resource] and has asked discovery, or LearnScope has.
func (r *KubernetesResourceReflector[T]) ClusterScoped() bool {
	return r.source.About().Scope == stream.ClusterScoped || r.lookups().About().Scope == stream.ClusterScoped
}

// LearnScope asks discovery whether the objects have namespaces, unless it answered in the last ten seconds. Only
// a [client.Resource] and a generated client can ask.
func (r *KubernetesResourceReflector[T]) LearnScope(ctx context.Context) error {
	of, ok := r.lookups().(interface{ LearnScope(context.Context) error })
	if !ok || r.source.Check() != nil {
		return nil
	}
	if err := of.LearnScope(ctx); err != nil {
		return fmt.Errorf("reflector %s: %w", r.name, err)
	}
	return nil
}

// mayMatch reports whether a field selector may match an object. It checks only the name and the
// namespace.
func mayMatch(selector fields.Selector, object metav1.Object) bool {
	known := map[string]string{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}
	for _, r := range selector.Requirements() {
		if value, ok := known[r.Field]; ok && (value == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}
