package manager

import (
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects is an informer and a client of the same objects. A reconcile function reads from the
// cache of the informer, and writes with the client or by package write.
type Objects[T reflector.Object] struct {
	*informer.Informer[T]
	Client *client.Resource[T]
}

// For returns the informer of a source, as [Informer] does, and a client of the same resource.
func For[T reflector.Object](m *Manager, from Selection) (*Objects[T], error) {
	reads, err := Informer[T](m, from)
	if err != nil {
		return nil, err
	}
	writes, err := newClient[T](m, from)
	if err != nil {
		return nil, err
	}
	return &Objects[T]{reads, writes}, nil
}

// ByReference returns a cache for a program that reads few of the objects of a source: see package
// ondemand. The manager runs the informer, which holds only the metadata of the objects. Pass it to
// reconcile.Watch. The cache gets an object from the server at its first use.
//
// owned are label selectors of objects that the cache holds whole, each with an informer of the manager.
// A program that adds one later passes the cache of an [Informer] to [ondemand.Objects.AddOwned].
func ByReference[T reflector.Object](m *Manager, from Selection, owned ...string) (*ondemand.Objects[T], *informer.Informer[*metav1.PartialObjectMetadata], error) {
	if from.Resource.Empty() && from.Kind.Empty() {
		from.Kind = kindOf[T](m.scheme)
	}
	whose := make([]Selection, len(owned))
	for n, selector := range owned {
		whose[n] = from
		whose[n].LabelSelector = strings.Trim(from.LabelSelector+","+selector, ",")
	}
	for _, one := range append(whose, from) { // before the manager has any of the informers
		if _, err := one.selectors(); err != nil {
			return nil, nil, fmt.Errorf("informer of %s: %w", one, err)
		}
	}
	objects, err := newClient[T](m, from)
	if err != nil {
		return nil, nil, err
	}
	metadata, err := Informer[*metav1.PartialObjectMetadata](m, from)
	if err != nil {
		return nil, nil, err
	}
	whole, err := ondemand.New(objects.In, metadata.Cache())
	if err != nil {
		return nil, nil, err
	}
	for _, one := range whose {
		i, err := Informer[T](m, one)
		if err != nil {
			whole.Close()
			return nil, nil, err
		}
		whole.AddOwned(i.Cache())
	}
	return whole, metadata, nil
}

// newClient returns a client of the resource of a source.
func newClient[T reflector.Object](m *Manager, from Selection) (*client.Resource[T], error) {
	m.informers.mu.Lock()
	defer m.informers.mu.Unlock()
	resource, err := clientLocked[T](m, from)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", from, err)
	}
	return resource, nil
}
