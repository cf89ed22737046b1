package client

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var (
	// ErrNoKind means that [For] does not know T's kind. T is not a built-in type, and the options
	// have neither [WithKind] with a version nor [WithScheme] with a scheme in which T is registered
	// exactly once.
	ErrNoKind = errors.New("kind is not known: pass WithKind with a version, or WithScheme with a scheme that has the type")

	// ErrClusterScoped means that the caller set a namespace for a kind whose objects have none.
	ErrClusterScoped = errors.New("kind has no namespaces: pass an empty one")
)

// For returns the client of T's kind in all namespaces. [Resource.In] returns the client of one
// namespace. Built-in types need no option; the kind of any other T comes from [WithKind], or from
// T's registration in the scheme of [WithScheme]:
//
//	pods, err := client.For[*corev1.Pod](config)
//	sites, err := client.For[*Site](config, client.WithKind(siteKind))
//
// For sends no request. The first request that needs the resource finds its name by discovery. If
// the server does not serve the kind yet, that request fails with [reflector.ErrNotServed], and the
// reflector retries it as usual. The Resource asks the server once. It asks again after such a
// failure, when the server no longer knows the resource, and when the scope or the kind does not fit
// any more: see client-C1 in the package documentation.
//
// For returns [ErrNoKind] if the kind is not known, and the errors of [ForResource].
func For[T source.Object](config *rest.Config, opts ...ResourceOption) (*Resource[T], error) {
	t, o := reflect.TypeFor[T](), newResourceOptions(opts)
	kind, err := kindOf(t, &o)
	if err != nil {
		return nil, err
	}
	return forKind[T](config, t, kind, o)
}

// forKind returns the client of a kind. Its first request finds the name of the resource.
func forKind[T source.Object](config *rest.Config, t reflect.Type, kind schema.GroupVersionKind, o resourceOptions) (*Resource[T], error) {
	o.kind = kind
	r, err := connect[T](config, t, kind.GroupVersion().WithResource(""), "", o)
	if err != nil {
		return nil, err
	}
	r.name = kind.GroupKind().String() + "/" + kind.Version
	r.finder = newFinder(kind, &listed{rest: r.rest})
	if !source.IsNil(o.mapper) {
		r.finder = newFinder(kind, mapped{o.mapper})
	}
	return r, nil
}

// In returns a view of the client for one namespace. An empty namespace means all of them. A kind
// whose objects have no namespaces fails with [ErrClusterScoped] at the first request. All views
// share what discovery has found.
func (r *Resource[T]) In(namespace string) *Resource[T] {
	if r == nil {
		return nil
	}
	in := &Resource[T]{
		rest: r.rest, patient: r.patient, timeout: r.timeout, resource: r.resource, namespace: namespace, name: r.name, kind: r.kind, finder: r.finder, options: r.options,
		codec: r.codec, protobuf: r.protobuf, answers: r.answers, decoders: r.decoders, oneDecoders: r.oneDecoders,
		expected: expected{version: r.expected.version, generated: r.expected.generated, partial: r.expected.partial, given: r.expected.given, learned: r.expected.learned},
	}
	in.onlyJSON.Store(r.onlyJSON.Load())
	return in
}

// Namespace returns the namespace of the view, or an empty one for all.
func (r *Resource[T]) Namespace() string {
	if r == nil {
		return ""
	}
	return r.namespace
}

// kindOf returns the kind of a type according to the options.
func kindOf(t reflect.Type, o *resourceOptions) (schema.GroupVersionKind, error) {
	var none schema.GroupVersionKind
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return none, fmt.Errorf("client of %s: %w", t, ErrNoStruct)
	}
	if !o.kind.Empty() {
		if o.kind.Kind == "" || o.kind.Version == "" {
			return none, fmt.Errorf("client of %s, as %q, which lacks a kind or a version: %w", t, o.kind.String(), ErrNoKind)
		}
		return o.kind, nil
	}
	if o.scheme == nil {
		if kind, ok := builtIn(t.Elem()); ok {
			return kind, nil
		}
	}
	object, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
	if !ok || o.scheme == nil {
		return none, fmt.Errorf("client of %s: %w", t, ErrNoKind)
	}
	kinds, _, err := o.scheme.ObjectKinds(object)
	if err != nil {
		return none, fmt.Errorf("client of %s: %w: %w", t, ErrNoKind, err)
	}
	if len(kinds) != 1 {
		return none, fmt.Errorf("client of %s, which is registered as %v: %w", t, kinds, ErrNoKind)
	}
	return kinds[0], nil
}

// builtInGroups maps the packages of k8s.io/api to API groups.
var builtInGroups = map[string]string{
	"admissionregistration": "admissionregistration.k8s.io",
	"apiserverinternal":     "internal.apiserver.k8s.io",
	"apps":                  "apps",
	"authentication":        "authentication.k8s.io",
	"authorization":         "authorization.k8s.io",
	"autoscaling":           "autoscaling",
	"batch":                 "batch",
	"certificates":          "certificates.k8s.io",
	"coordination":          "coordination.k8s.io",
	"core":                  "",
	"discovery":             "discovery.k8s.io",
	"events":                "events.k8s.io",
	"extensions":            "extensions",
	"flowcontrol":           "flowcontrol.apiserver.k8s.io",
	"lifecycle":             "lifecycle.k8s.io",
	"networking":            "networking.k8s.io",
	"node":                  "node.k8s.io",
	"policy":                "policy",
	"rbac":                  "rbac.authorization.k8s.io",
	"resource":              "resource.k8s.io",
	"scheduling":            "scheduling.k8s.io",
	"storage":               "storage.k8s.io",
	"storagemigration":      "storagemigration.k8s.io",
}

// builtIn returns the kind of a type in k8s.io/api/GROUP/VERSION. It needs no scheme, which would
// link every built-in type into the program.
func builtIn(t reflect.Type) (schema.GroupVersionKind, bool) {
	path, ok := strings.CutPrefix(t.PkgPath(), "k8s.io/api/")
	pkg, version, _ := strings.Cut(path, "/")
	group, known := builtInGroups[pkg]
	return schema.GroupVersionKind{Group: group, Version: version, Kind: t.Name()}, ok && known
}
