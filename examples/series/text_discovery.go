package series

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mapping is REST mapping: it says which resource serves the objects of a kind.
//
// Library: mapper.Mapper.
type Mapping map[schema.GroupVersionKind]schema.GroupVersionResource

// Discover makes a Mapping of what the server says about itself, at /api and /apis. Any discovery
// client of client-go has the method.
func Discover(client interface {
	ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
}) (Mapping, error) {
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	mapping := Mapping{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") { // deployments/scale is a subresource
				mapping[version.WithKind(resource.Kind)] = version.WithResource(resource.Name)
			}
		}
	}
	return mapping, nil
}

// Endpoint is the path of an object, with the parts that the notes mark.
//
// Library: client.Resource.
func Endpoint(resource schema.GroupVersionResource, namespace, name string) string {
	prefix := path.Join("/apis", resource.Group, resource.Version)
	if resource.Group == "" {
		prefix = path.Join("/api", resource.Version) // the core group has its own prefix
	}
	if namespace != "" {
		prefix = path.Join(prefix, "namespaces", namespace)
	}
	return path.Join(prefix, resource.Resource, name)
}

// DiscoveryCache is ~/.kube/cache/discovery: it asks the server only when its answer is older than
// TTL.
//
// Library: mapper.OnDisk, mapper.InMemory.
type DiscoveryCache struct {
	Ask func() (Mapping, error) // such as Discover
	TTL time.Duration           // ten minutes in the notes

	mu      sync.Mutex // guards mapping and expires, also while Ask runs: one caller asks, the others wait
	mapping Mapping
	expires time.Time
}

// ResourceFor says where a kind is served. Until the answer expires, it says of a kind that was
// installed meanwhile that there is no such kind.
func (c *DiscoveryCache) ResourceFor(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !time.Now().Before(c.expires) {
		mapping, err := c.Ask()
		if err != nil {
			return schema.GroupVersionResource{}, err
		}
		c.mapping, c.expires = mapping, time.Now().Add(c.TTL)
	}
	resource, ok := c.mapping[kind]
	if !ok {
		return resource, fmt.Errorf("the server has no %v", kind)
	}
	return resource, nil
}
