package apiserver

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// dataset is the objects that a server has of one resource, and in all formats in which it has them.
type dataset struct {
	resource schema.GroupVersionResource
	build    func(objects int) (map[Format]*set, error)
}

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

// datasets are what a server can have, by their names.
var datasets = map[string]dataset{
	// The two extremes: pods of Deployments with 20 replicas, and pods that have nothing in common.
	"pods":   {podResource, func(n int) (map[Format]*set, error) { return canTyped("Pod", objects.Pods(n, objects.Templated)) }},
	"unlike": {podResource, func(n int) (map[Format]*set, error) { return canTyped("Pod", objects.Pods(n, objects.Unlike)) }},
	// The objects of a cluster in the field.
	"field": {podResource, func(n int) (map[Format]*set, error) { return canTyped("Pod", objects.Pods(n, objects.Field)) }},
	"secrets": {corev1.SchemeGroupVersion.WithResource("secrets"), func(n int) (map[Format]*set, error) {
		return canTyped("Secret", objects.Secrets(n))
	}},
	"configmaps": {corev1.SchemeGroupVersion.WithResource("configmaps"), func(n int) (map[Format]*set, error) {
		return canTyped("ConfigMap", objects.ConfigMaps(n))
	}},
	// Custom resources.
	"custom": {Applications, canApplications},
}

// Resource returns the resource of a data set.
func Resource(dataset string) (r schema.GroupVersionResource, ok bool) {
	d, ok := datasets[dataset]
	return d.resource, ok
}

// path is where a resource is under the root of a server.
func path(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return fmt.Sprintf("/api/%s/%s", r.Version, r.Resource)
	}
	return fmt.Sprintf("/apis/%s/%s/%s", r.Group, r.Version, r.Resource)
}

func canTyped[T interface {
	metav1.Object
	message
}](name string, all []T) (map[Format]*set, error) {
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: name}
	text := &set{format: InJSON, kind: kind, skip: len(fmt.Sprintf(`{"kind":%q,"apiVersion":"v1",`, name))}
	binary := &set{format: InProtobuf, kind: kind}
	for i, object := range all {
		version := fmt.Sprint(FirstVersion + i)
		object.SetResourceVersion(version)
		inText, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		inBinary, err := object.Marshal()
		if err != nil {
			return nil, err
		}
		if err := text.add(inText, version); err != nil {
			return nil, err
		}
		if err := binary.add(inBinary, version); err != nil {
			return nil, err
		}
	}
	return map[Format]*set{InJSON: text, InProtobuf: binary}, nil
}

func canApplications(n int) (map[Format]*set, error) {
	s := &set{format: InJSON, kind: metav1.TypeMeta{APIVersion: Applications.GroupVersion().String(), Kind: "Application"}}
	for i := range n {
		a := NewApplication(i)
		a.ResourceVersion = fmt.Sprint(FirstVersion + i)
		data, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		if err := s.add(data, a.ResourceVersion); err != nil {
			return nil, err
		}
	}
	return map[Format]*set{InJSON: s}, nil
}

func (s *set) add(data []byte, version string) error {
	c, err := can(data, version)
	s.objects = append(s.objects, c)
	return err
}

// shelf has the data sets of a server. Each is built when it is first wanted.
type shelf struct {
	objects int

	mu    sync.Mutex // protects built
	built map[string]map[Format]*set
}

func (s *shelf) get(name string) (map[Format]*set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if built, ok := s.built[name]; ok {
		return built, nil
	}
	d, ok := datasets[name]
	if !ok {
		return nil, fmt.Errorf("there is no data set %q", name)
	}
	built, err := d.build(s.objects)
	if err != nil {
		return nil, fmt.Errorf("data set %s: %w", name, err)
	}
	if s.built == nil {
		s.built = map[string]map[Format]*set{}
	}
	s.built[name] = built
	return built, nil
}
