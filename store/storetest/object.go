package storetest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/store"
)

// Object is what the suite stores. *Object is a [store.Object] with the accessors
// that a store looks for; as with a Kubernetes object, they panic on nil. Like
// every stored object it is not changed once it was handed over.
type Object struct {
	// Cluster is empty but in the tests of stores that use [ClusterKey].
	Cluster         string
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string

	// Payload stands for everything else. Two states of one object differ in
	// it, also where neither has a resource version.
	Payload string
}

var _ store.KeyFunc[*Object] = store.ObjectKey[*Object]

// New returns an object without a payload.
func New(namespace, name, uid, resourceVersion string) *Object {
	return &Object{Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: resourceVersion}
}

// At returns a later state of the object: a copy with another resource version,
// which is its payload as well.
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
