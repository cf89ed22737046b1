package reflectortest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	validcontent "k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
)

// A Resource describes a kind that is not built into Kubernetes, like a CustomResourceDefinition.
// Group, Version, Kind and Plural are required.
type Resource struct {
	Group      string
	Version    string
	Kind       string
	Plural     string // the name in URLs, such as "pods"
	Singular   string // lower-cased Kind if empty
	ShortNames []string
	Categories []string
	Namespaced bool
	// Status means that the kind has a status subresource: only writes to /status change its
	// status, and its generation ignores the status.
	Status bool
	// Schema is the openAPIV3Schema of the CustomResourceDefinition, in JSON or YAML. It says how
	// server-side apply merges the lists; without it, an apply replaces whole lists. Its defaults are
	// set in every object that is written, and it decides whether a null stays. The server does not
	// validate objects by it, and keeps fields that it does not have.
	Schema []byte
	// Prototype is a value of the kind's Go type for Create, Get and the other methods of Server.
	// The server does not keep it. Without a prototype those methods take
	// *unstructured.Unstructured.
	Prototype metav1.Object

	selectable []string // paths of the definition's selectableFields
	scale      bool     // the definition has the subresource scale, which the server lacks

	// structural parses Schema once for all servers with the option.
	structural func() (*structural, error)
}

// resource is a Resource with the properties that control the real server's behaviour for that
// kind, and with its stored objects.
type resource struct {
	Resource
	typed bool // a built-in type of client-go's scheme, which also has protobuf

	tracksGeneration bool // metadata.generation is set and counted
	returnsDeleted   bool // a deletion answers with the object, not with a Status
	versionRequired  bool // an update without a resource version is refused
	unannounced      bool // served, but absent from discovery
	orphans          bool // a deletion without a policy orphans the dependents
	uncollected      bool // the garbage collector ignores the kind, and a deletion has no policy
	names            validation.ValidateNameFunc
	longestName      int // of a new object; 0 is no further limit

	selectable    selectable // of a field selector
	admissions    []*admission
	shape         *structural                            // nil for a built-in kind or one without a schema
	kinds         *kinds                                 // of the registry
	fieldManagers map[string]*managedfields.FieldManager // by subresource; made at their first use
	converter     managedfields.TypeConverter            // of a kind that is not built in; made at its first use
	history       *history

	definitions bool // the objects are definitions that the server follows

	// The fields below are those of a kind whose definition the server follows, and zero for others.
	defined     *defined
	ended       <-chan struct{} // closed when the watches have to end
	secondary   bool            // the objects are those of another version
	terminating bool            // the definition is being deleted
}

// builtinResource is a line of builtin_resources.json. The file comes from the discovery of
// kube-apiserver v1.36.3 and, for the fields from generation to uncollected and those of names, from its registry
// strategies. The server also serves other API versions of client-go (older and newer), without
// announcing them.
type builtinResource struct {
	Group           string   `json:"group"`
	Version         string   `json:"version"`
	Kind            string   `json:"kind"`
	Resource        string   `json:"resource"`
	Singular        string   `json:"singular"`
	ShortNames      []string `json:"shortNames"`
	Categories      []string `json:"categories"`
	Namespaced      bool     `json:"namespaced"`
	Status          bool     `json:"status"`
	Generation      bool     `json:"generation"`
	ReturnsDeleted  bool     `json:"returnsDeleted"`
	VersionRequired bool     `json:"versionRequired"`
	Orphans         bool     `json:"orphans"`
	Uncollected     bool     `json:"uncollected"`
	Unannounced     bool     `json:"unannounced"`
	Name            string   `json:"name"` // one of nameRules
	LongestName     int      `json:"longestName"`
}

// nameRules say which names the objects of a built-in kind may have. The name of a ClusterTrustBundle,
// which the real server compares with the spec, and that of an internal StorageVersion are only kept from
// breaking the URL.
var nameRules = map[string]validation.ValidateNameFunc{
	"":        validation.NameIsDNSSubdomain,
	"label":   validation.NameIsDNSLabel,
	"segment": validPathSegment,
	"key":     func(name string, _ bool) []string { return utilvalidation.IsConfigMapKey(name) },
	"address": func(name string, _ bool) (messages []string) {
		for _, err := range utilvalidation.IsValidIP(nil, name) {
			messages = append(messages, err.Detail)
		}
		return messages
	},
}

func validPathSegment(name string, prefix bool) []string {
	if prefix {
		return validcontent.IsPathSegmentPrefix(name)
	}
	return validcontent.IsPathSegmentName(name)
}

//go:embed builtin_resources.json
var builtinResourcesJSON []byte

// builtinResources parses the file once, because a simulation starts hundreds of servers a second.
var builtinResources = sync.OnceValues(func() ([]builtinResource, error) {
	var all []builtinResource
	if err := json.Unmarshal(builtinResourcesJSON, &all); err != nil {
		return nil, fmt.Errorf("reflectortest: builtin_resources.json: %w", err)
	}
	return all, nil
})

// registry finds a resource by its URL, its kind or its Go type. It never changes once the server
// has it: a change of a definition makes another one.
type registry struct {
	ordered []*resource // as discovery lists them
	byGVR   map[schema.GroupVersionResource]*resource
	byGVK   map[schema.GroupVersionKind]*resource
	byType  map[reflect.Type]*resource
	kinds   *kinds // of the resources that are always there

	// The fields below are of the definitions.
	owners      map[reference]*kind
	unavailable []schema.GroupVersion // by their APIService
}

func newRegistry(custom []Resource) (*registry, error) {
	g := &registry{
		byGVR:  map[schema.GroupVersionResource]*resource{},
		byGVK:  map[schema.GroupVersionKind]*resource{},
		byType: map[reflect.Type]*resource{},
		kinds:  &kinds{byReference: map[reference]*kind{}, byGroupKind: map[schema.GroupKind]*kind{}},
	}
	builtin, err := builtinResources()
	if err != nil {
		return nil, err
	}
	types := scheme.Scheme.AllKnownTypes()
	for _, b := range builtin {
		r := &resource{
			Resource: Resource{
				Group: b.Group, Version: b.Version, Kind: b.Kind, Plural: b.Resource, Singular: b.Singular,
				ShortNames: b.ShortNames, Categories: b.Categories, Namespaced: b.Namespaced, Status: b.Status,
			},
			typed:            true,
			tracksGeneration: b.Generation,
			returnsDeleted:   b.ReturnsDeleted,
			versionRequired:  b.VersionRequired,
			unannounced:      b.Unannounced,
			orphans:          b.Orphans,
			uncollected:      b.Uncollected,
			names:            nameRules[b.Name],
			longestName:      b.LongestName,
		}
		r.selectable = builtinSelectable[r.gvk()]
		if types[r.gvk()] == nil && b.Unannounced {
			continue // an older client-go lacks the newest API versions
		}
		if err := g.add(r, types[r.gvk()]); err != nil {
			return nil, err
		}
	}
	for _, c := range custom {
		if err := c.checkSchema(); err != nil {
			return nil, err
		}
		if c.Singular == "" {
			c.Singular = strings.ToLower(c.Kind)
		}
		var t reflect.Type
		if c.Prototype != nil {
			t = reflect.TypeOf(c.Prototype).Elem()
			c.Prototype = nil
		}
		r, err := newCustomResource(c)
		if err != nil {
			return nil, err
		}
		if err := g.add(r, t); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// newCustomResource makes the resource of a kind that is not built in. It always counts generations,
// and an update always needs a resource version.
func newCustomResource(c Resource) (*resource, error) {
	r := &resource{Resource: c, tracksGeneration: true, versionRequired: true, names: validation.NameIsDNSSubdomain, selectable: customSelectable(c.selectable)}
	if c.structural == nil {
		return r, nil
	}
	var err error
	if r.shape, err = c.structural(); err != nil {
		return nil, fmt.Errorf("reflectortest: schema of %s: %w", c.Plural, err)
	}
	return r, nil
}

func (g *registry) add(r *resource, t reflect.Type) error {
	switch {
	case r.Version == "" || r.Kind == "" || r.Plural == "":
		return fmt.Errorf("reflectortest: resource %+v needs a version, a kind and a plural name", r.Resource)
	case r.Group == "" && !r.typed:
		return fmt.Errorf("reflectortest: resource %s needs a group: the core group holds built-in types only", r.Plural)
	case g.byGVR[r.gvr()] != nil || g.byGVK[r.gvk()] != nil:
		return fmt.Errorf("reflectortest: %s is registered twice", r.gvr())
	case t != nil && g.byType[t] != nil:
		return fmt.Errorf("reflectortest: Go type %s stands for %s already; give %s another prototype or none", t, g.byType[t].gvk(), r.gvk())
	}
	r.history = newHistory()
	r.kinds = g.kinds
	g.kinds.add(r)
	g.ordered = append(g.ordered, r)
	g.byGVR[r.gvr()] = r
	g.byGVK[r.gvk()] = r
	if t != nil {
		g.byType[t] = r
	}
	return nil
}

// hasGroup reports whether a group is always there. In other groups, unknown resources and versions
// have an answer of plain text.
func (g *registry) hasGroup(group string) bool {
	return slices.ContainsFunc(g.ordered, func(r *resource) bool { return r.Group == group && r.defined == nil })
}

// forObject finds the resource of a Go value: by its type, or by its apiVersion
// and kind if it is unstructured.
func (g *registry) forObject(obj metav1.Object) (*resource, error) {
	if v := reflect.ValueOf(obj); obj == nil || (v.Kind() == reflect.Pointer && v.IsNil()) {
		return nil, fmt.Errorf("reflectortest: the object is nil: %T", obj)
	}
	if u, ok := obj.(runtime.Unstructured); ok {
		gvk := u.GetObjectKind().GroupVersionKind()
		if r := g.byGVK[gvk]; r != nil {
			return r, nil
		}
		return nil, fmt.Errorf("reflectortest: kind %s is not served: register it with WithResource, or create its definition", gvk)
	}
	t := reflect.TypeOf(obj)
	if t.Kind() == reflect.Pointer {
		if r := g.byType[t.Elem()]; r != nil {
			return r, nil
		}
	}
	return nil, fmt.Errorf("reflectortest: Go type %T is not served: register it with WithResource and a Prototype", obj)
}

func (res *resource) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: res.Group, Version: res.Version, Kind: res.Kind}
}

func (res *resource) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: res.Group, Version: res.Version, Resource: res.Plural}
}

func (res *resource) gr() schema.GroupResource {
	return schema.GroupResource{Group: res.Group, Resource: res.Plural}
}

func (res *resource) apiVersion() string {
	return schema.GroupVersion{Group: res.Group, Version: res.Version}.String()
}

// object is a decoded object on its way in or out: a built-in Go type, or
// *unstructured.Unstructured for a registered one.
type object interface {
	metav1.Object
	runtime.Object
}

// newObject returns an empty object of the kind.
func (res *resource) newObject() object {
	if res.typed {
		obj, err := scheme.Scheme.New(res.gvk())
		if err != nil {
			panic(fmt.Sprintf("reflectortest: builtin_resources.json names %s, which client-go's scheme does not have: %v", res.gvk(), err))
		}
		return obj.(object)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(res.gvk())
	return u
}

// key is an object's key among the objects of its resource. Lists are in the order of keys. Like
// etcd, it orders by the bytes of "namespace/name".
func (res *resource) key(namespace, name string) string {
	if !res.Namespaced {
		return name
	}
	return namespace + "/" + name
}
