package await

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/types"
)

// Cache is a cache to wait for: a [store.Cache], or the [store.View] of one, such as the view of an
// informer. Its methods are the ones of [store.View].
type Cache[T any] interface {
	Get(key store.Key) (T, bool)
	KeyOf(object T) (store.Key, error)
	ResourceVersion() string
	Rejected() []store.Key
	Partitions() []*store.Partition[T]
	Follow(follower store.Follower[T]) (stop func())
}

var (
	_ Cache[any] = (*store.Cache[any])(nil)
	_ Cache[any] = (*store.View[any])(nil)
)

// Version waits until a cache contains every change up to a resource version, such as the version of
// an object that the caller just wrote to the server. Objects and bookmarks both advance the
// version, so Version also returns if a selector excludes the object. Followers and the queues of
// subscribers may receive the change a moment later.
//
// In a cache with partitions, Version waits for each partition, including partitions that are added
// meanwhile. It fails with [store.ErrOutOfScope] if a partition is dropped that it waits for.
//
// Version returns nil if the cache has reached the version, even if ctx has ended. It returns an
// [*Error] when ctx ends, when a Replace lowers the resource version, when resourceVersion is
// empty, or when one of the versions is no number. errors.Is finds the cause of ctx. A rejected
// object holds back the version: give ctx a deadline, and the error names the object.
func Version[T any](ctx context.Context, cache Cache[T], resourceVersion string) error {
	w := newWaiter(cache, store.Key{}, store.Version{ResourceVersion: resourceVersion})
	return w.wait(ctx, w.reachedByAll)
}

// Object waits until a cache has seen an object as the server returned it from a create or an
// update. Then the cache holds this state or a later one, or the object is deleted again, or a
// selector excludes it. In a cache with partitions, Object waits for the partition of the object.
//
// It returns the errors of [Version]. It also returns an [*Error] at once for an object without a
// key ([store.ErrBadKey]), without a resource version, or in no partition ([store.ErrOutOfScope]).
// If the KeyFunc does not know the cluster, use [ObjectIn].
func Object[T any](ctx context.Context, cache Cache[T], object T) error {
	return ObjectIn(ctx, cache, "", object)
}

// ObjectIn is [Object] for an object of the given cluster. It is for a KeyFunc that does not know the
// cluster.
func ObjectIn[T any](ctx context.Context, cache Cache[T], cluster string, object T) error {
	w, err := waiterFor(cache, cluster, object)
	if err != nil {
		return err
	}
	return w.wait(ctx, w.shown)
}

// Deletion waits until a cache no longer holds an object that was deleted on the server. Another
// object of the same name has another UID and does not count. Pass the last known state of the
// object: Deletion first waits until the cache has seen that state. It returns the errors of
// [Object].
func Deletion[T any](ctx context.Context, cache Cache[T], object T) error {
	w, err := waiterFor(cache, "", object)
	if err != nil {
		return err
	}
	seen := false
	return w.wait(ctx, func() (bool, error) {
		if !seen {
			var err error
			if seen, err = w.shown(); !seen {
				return false, err
			}
		}
		held, ok := cache.Get(w.key)
		return !ok || isOther(store.VersionOf(held).UID, w.version.UID), nil
	})
}

// isOther reports whether two UIDs are known and differ.
func isOther(a, b types.UID) bool { return a != "" && b != "" && a != b }

var errNoVersion = errors.New("object has no resource version: pass it as the server returned it")

// waiterFor returns a waiter for an object. The cluster selects the partition; a cache without
// partitions has the key of the KeyFunc.
func waiterFor[T any](cache Cache[T], cluster string, object T) (*waiter[T], error) {
	key, err := cache.KeyOf(object)
	w := newWaiter(cache, key, store.Version{})
	if err == nil {
		if w.version = store.VersionOf(object); w.version.ResourceVersion == "" {
			err = errNoVersion
		}
	}
	w.clusterKey = key
	if key.Cluster == "" {
		w.clusterKey.Cluster = cluster
	}
	return w, w.failed(err)
}

// Error says why a wait failed.
type Error struct {
	// Wanted is the resource version that the caller waited for; empty if the object has none.
	Wanted string
	// Reached is the resource version of the cache, or of the partition, when the wait ended.
	Reached string
	// Key is the key of the object that the caller waited for; zero if there was no object.
	Key store.Key
	// Rejected lists, in order, the first 16 keys that hold back the resource version. The cache
	// rejected an object under each key, and has not stored or deleted it since. The zero Key
	// stands for objects without a key.
	Rejected []store.Key
	// Err is [store.ErrOutOfScope] or [store.ErrBadKey], or the cause of the context. Else its text
	// says that a list lowered the version, or that the version is empty or no number.
	Err error
}

const (
	maxRejected = 16 // bounds Error.Rejected
	maxListed   = 5  // bounds the length of a message
)

// Error names the wanted and the reached version, the first rejected keys, and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "waiting for resource version %.64q", e.Wanted)
	if e.Key != (store.Key{}) {
		fmt.Fprintf(&b, " of %.253q", e.Key)
	}
	fmt.Fprintf(&b, ", reached %.64q", e.Reached)
	separator := " before the rejected "
	for _, key := range e.Rejected[:min(len(e.Rejected), maxListed)] {
		name := "object without a key"
		if key != (store.Key{}) {
			name = fmt.Sprintf("%.253q", key) // no longer name is valid
		}
		b.WriteString(separator + name)
		separator = ", "
	}
	if len(e.Rejected) > maxListed {
		b.WriteString(" and others")
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
