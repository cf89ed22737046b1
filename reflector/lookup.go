package reflector

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Lookup asks the server whether an object exists, and returns its UID. Use it before a cleanup: when
// an object merely stops matching a selector, the server sends the same DELETED event as for a
// deletion. exists is false without an error only if the server says that there is no such object.
// The cluster of the key does not count.
//
// Lookup needs the permission to get the objects, beside list and watch. It sends one GET. A client of
// another package whose namespace it does not know, and one without Get, is also asked, or only asked,
// for a list with the name as field selector. The answer does not come from a cache of the server.
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
	uid, exists, err = source.Lookup(ctx, r.lookups(), key)
	if err != nil {
		return "", false, fmt.Errorf("reflector %s looks up %s: %w", r.name, key, err)
	}
	return uid, exists, nil
}

// Covers reports whether the store holds an object of a key if one exists, as far as the watch has
// come. It returns false if the reflector has a selector or shards, and for a key in another namespace
// than the client's.
func (r *KubernetesResourceReflector[T]) Covers(key store.Key) bool {
	return r.labelSelector == "" && r.fieldSelector == "" && r.shards == nil && !r.isElsewhere(key)
}

// isElsewhere reports whether a key is in another namespace than the client's.
func (r *KubernetesResourceReflector[T]) isElsewhere(key store.Key) bool {
	return r.namespace != "" && key.Namespace != "" && key.Namespace != r.namespace
}

// generated is a client of client-go's generator.
type generated interface {
	GetClient() rest.Interface
	GetNamespace() string
}

// namespaceOf returns the namespace of a client, if it is known.
func namespaceOf(of any, from source.About) string {
	if typed, ok := of.(generated); ok && from.Namespace == "" && !source.IsNil(of) {
		return typed.GetNamespace()
	}
	return from.Namespace
}

// lookupsOf returns the source for lookups. Get of a generated client of all namespaces cannot name
// one, but its REST client can.
func lookupsOf[T Object, L any](of Client[T, L], from source.Source[T]) source.Source[T] {
	if _, plain := from.(*source.ClientSource[T, L]); plain {
		if typed, err := client.FromTypedClient(of); err == nil {
			return typed.Source(typed)
		}
	}
	return from
}
