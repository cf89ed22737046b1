package source

import (
	"context"
	"errors"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// Lookups is a Source that can ask its server for single objects.
type Lookups interface {
	// Lookup asks for the object under a key, and returns its UID. It returns false without an error
	// only if the server says that there is no such object, and not if it does not know the resource.
	// The cluster of the key does not count.
	Lookup(ctx context.Context, key store.Key) (uid types.UID, exists bool, err error)
}

// Lookup is the Lookup of a source. It returns ErrNoGet if the source has none.
func Lookup(ctx context.Context, from any, key store.Key) (uid types.UID, exists bool, err error) {
	if from, ok := from.(Lookups); ok {
		return from.Lookup(ctx, key)
	}
	return "", false, ErrNoGet
}

// GetterIn is a client that gets objects of any namespace. Get of a Client takes only a name.
type GetterIn[T any] interface {
	GetIn(ctx context.Context, namespace, name string) (T, error)
}

// Lookup implements [Lookups]. Get of a client of all namespaces cannot name one. So such a client of
// another package finds nothing, although the object exists, and only a list is proof. The same list
// serves a client that has no Get.
func (s *ClientSource[T, L]) Lookup(ctx context.Context, key store.Key) (types.UID, bool, error) {
	if IsNil(s.client) {
		return "", false, ErrNoClient
	}
	anywhere, ok := s.client.(GetterIn[T])
	var object T
	var err error
	if ok {
		object, err = anywhere.GetIn(ctx, key.Namespace, key.Name)
	} else {
		object, err = s.client.Get(ctx, key.Name, metav1.GetOptions{})
	}
	switch {
	case errors.Is(err, ErrNoGet):
	case err == nil && isUnder(object, key):
		return object.GetUID(), true, nil
	case IsObjectMissing(err):
		if ok || key.Namespace == "" {
			return "", false, nil
		}
	case err != nil && (ok || key.Namespace == "" || !apierrors.IsNotFound(err)):
		return "", false, stream.Bound(err)
	}
	return s.lookupInList(ctx, key)
}

// lookupInList is Lookup by a list. Servers answer such a list as fast as a Get, because the name and
// the namespace are the key in their storage. Test doubles ignore field selectors.
func (s *ClientSource[T, L]) lookupInList(ctx context.Context, key store.Key) (types.UID, bool, error) {
	under := fields.Set{"metadata.name": key.Name}
	if key.Namespace != "" {
		under["metadata.namespace"] = key.Namespace
	}
	opts := metav1.ListOptions{FieldSelector: under.AsSelector().String()}
	for {
		p, err := s.List(ctx, opts, Wants[T]{})
		if err != nil {
			return "", false, err
		}
		for _, object := range p.Items {
			if isUnder(object, key) {
				return object.GetUID(), true, nil
			}
		}
		if opts.Continue = p.Continue; p.Continue == "" {
			return "", false, nil
		}
	}
}

func isUnder[T Object](object T, key store.Key) bool {
	return !IsNil(object) && object.GetName() == key.Name && object.GetNamespace() == key.Namespace
}

// IsObjectMissing reports whether an error says that the server knows the resource and has no such
// object.
func IsObjectMissing(err error) bool { return apierrors.IsNotFound(err) && !IsResourceMissing(err) }

// IsResourceMissing reports whether an error says that the server does not know a resource. If only
// the object is missing, the status is the API server's own and names the object.
func IsResourceMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
