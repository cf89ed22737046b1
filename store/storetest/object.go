package storetest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/store"
)

// Object is the type of the suite's objects. *Object is an object with the methods that a
// store looks for. As with a Kubernetes object, these methods panic on nil. Like every stored
// object, it does not change after it was passed to a store.
type Object struct {
	// Cluster is empty except in the tests of stores that use [ClusterKey].
	Cluster         string
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string

	// Payload stands for all other fields. It differs between two states of one object, also if
	// neither has a resource version.
	Payload string
}

var _ store.KeyFunc[*Object] = store.ObjectKey[*Object]

// New returns an object without a payload.
func New(namespace, name, uid, resourceVersion string) *Object {
	return &Object{Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: resourceVersion}
}

// At returns a later state of the object: a copy with another resource version, which is also its
// payload.
func (o *Object) At(resourceVersion string) *Object {
	later := *o
	later.ResourceVersion, later.Payload = resourceVersion, resourceVersion
	return &later
}

// GetName returns Name.
func (o *Object) GetName() string { return o.Name }

// GetNamespace returns Namespace.
func (o *Object) GetNamespace() string { return o.Namespace }

// GetUID returns UID.
func (o *Object) GetUID() types.UID { return o.UID }

// GetResourceVersion returns ResourceVersion.
func (o *Object) GetResourceVersion() string { return o.ResourceVersion }

// String describes the object in a message. It may be called on nil.
func (o *Object) String() string {
	if o == nil {
		return "nil"
	}
	s := fmt.Sprintf("%s(uid %q, version %q", keyOf(o), o.UID, o.ResourceVersion)
	if o.Payload != "" && o.Payload != o.ResourceVersion {
		s += fmt.Sprintf(", payload %q", o.Payload)
	}
	return s + ")"
}

// ClusterKey is [store.ObjectKey] with the object's cluster.
func ClusterKey(o *Object) (store.Key, error) {
	key, err := store.ObjectKey(o)
	if err == nil {
		key.Cluster = o.Cluster
	}
	return key, err
}

func keyOf(o *Object) store.Key {
	return store.Key{Cluster: o.Cluster, Namespace: o.Namespace, Name: o.Name}
}
