package write

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrOtherNamespace means that the owner has a namespace, and the object is not in that namespace.
var ErrOtherNamespace = errors.New("an owner with a namespace owns objects of its own namespace only")

// OwnedError says that an object belongs to another controller.
type OwnedError struct {
	// Key is the key of the object.
	Key store.Key
	// Owner is the object's controller.
	Owner metav1.OwnerReference
}

// Error names the object and its owner.
func (e *OwnedError) Error() string {
	return cut.Text(fmt.Sprintf("%s belongs to %s %s, UID %s", e.Key, e.Owner.Kind, e.Owner.Name, e.Owner.UID), cut.MaxText)
}

// Own makes an owner the controller of an object before it is written, as [metav1.NewControllerRef]
// does: Kubernetes deletes the object after the owner. It returns an [*OwnedError] if the object
// has another controller, and [ErrOtherNamespace] if the namespaces do not match. Other owner
// references stay. Copy an object from a cache first.
func Own[O, T metav1.Object](owner O, kind schema.GroupVersionKind, object T) error {
	refs, err := owned(owner, kind, object)
	if err == nil {
		object.SetOwnerReferences(refs)
	}
	return err
}

// Adopt is [Own] for an existing object: it patches the held object, unless the object already
// belongs to the owner.
func Adopt[O, T metav1.Object](ctx context.Context, client Patcher[T], owner O, kind schema.GroupVersionKind, held T) (T, error) {
	if isNil(held) || isNil(owner) {
		return held, failed("adopt", held, errNil)
	}
	if metav1.IsControlledBy(held, owner) {
		return held, nil
	}
	refs, err := owned(owner, kind, held)
	if err != nil {
		return held, err
	}
	return sendMetadata(ctx, client, held, "ownerReferences", held.GetOwnerReferences(), refs)
}

// owned returns the owner references of an object with the owner as its controller.
func owned(owner metav1.Object, kind schema.GroupVersionKind, object metav1.Object) ([]metav1.OwnerReference, error) {
	if isNil(owner) || isNil(object) {
		return nil, failed("own", object, errNil)
	}
	key := store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	if owner.GetNamespace() != "" && owner.GetNamespace() != object.GetNamespace() {
		return nil, cut.Error(fmt.Sprintf("%s, owned by %s in %s", key, owner.GetName(), owner.GetNamespace()), ErrOtherNamespace)
	}
	if owner.GetUID() == "" {
		return nil, cut.Error(fmt.Sprintf("owner %s of %s", owner.GetName(), key), ErrNoVersion)
	}
	if other := metav1.GetControllerOf(object); other != nil && other.UID != owner.GetUID() {
		return nil, &OwnedError{Key: key, Owner: *other}
	}
	refs, ref := slices.Clone(object.GetOwnerReferences()), *metav1.NewControllerRef(owner, kind)
	if at := slices.IndexFunc(refs, func(other metav1.OwnerReference) bool { return other.UID == ref.UID }); at >= 0 {
		refs[at] = ref // at the same index: another order would be a change
		return refs, nil
	}
	return append(refs, ref), nil
}
