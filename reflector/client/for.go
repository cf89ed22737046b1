package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
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
// For a *metav1.PartialObjectMetadata with WithKind, the server sends only the metadata.
//
// For sends no request. The first request that needs the resource finds its name by discovery. If
// the server does not serve the kind yet, that request fails with [reflector.ErrNotServed], and the
// reflector retries it as usual. The Resource asks the server once. It asks again after such a
// failure, when the server no longer knows the resource, and when the scope or the kind does not fit
// any more: see client-C1 in the package documentation.
//
// For returns [ErrNoKind] if the kind is not known, and the errors of [ForResource].
func For[T stream.Object](config *rest.Config, opts ...ResourceOption) (*Resource[T], error) {
	t, o := reflect.TypeFor[T](), newResourceOptions(opts)
	kind, err := kindOf(t, &o)
	if err != nil {
		return nil, err
	}
	return forKind[T](config, t, kind, o)
}

// forKind returns the client of a kind. Its first request finds the name of the resource.
func forKind[T stream.Object](config *rest.Config, t reflect.Type, kind schema.GroupVersionKind, o resourceOptions) (*Resource[T], error) {
	o.kind = kind
	r, err := connect[T](config, t, kind.GroupVersion().WithResource(""), "", o)
	if err != nil {
		return nil, err
	}
	r.name = kind.GroupKind().String() + "/" + kind.Version
	var from directory = &listed{rest: r.rest}
	if !stream.IsNil(o.mapper) {
		from = mapped{o.mapper}
	}
	r.finder = newFinder(kind, from)
	return r, nil
}

// ErrExample means that the example of [ForType] does not fit T or the resource.
var ErrExample = errors.New("example of another type: pass a pointer to a struct that is a T, of the kind of the resource")

// ForType returns the client of a resource in all namespaces, and decodes its objects into the type
// of the example. T is an interface with the methods of metav1.Object, such as metav1.Object itself
// or controller-runtime's client.Object. So one instantiation of caches and informers serves all
// kinds of a program that knows them at run time, such as a factory:
//
//	deployments, err := client.ForType[metav1.Object](config, gvr, &appsv1.Deployment{})
//	cache := store.New(store.ObjectKey[metav1.Object]) // holds *appsv1.Deployment
//
// The example is a pointer to a struct like the T of [For], an Unstructured or a
// PartialObjectMetadata. It may be a nil pointer, since only its type and the kind that it states count. Of a
// PartialObjectMetadata the server sends only the metadata. The objects then state the kind of the
// resource, if the client knows it, and PartialObjectMetadata otherwise.
//
// If resource has no name, the first request finds it by discovery, as with [For]. The kind is then
// that of [WithKind], the one that the example states, or the one of its type.
//
// ForType returns [ErrExample] if the example is not a T, or if its kind or that of [WithKind] has
// another group or version than the resource. It returns the errors of [For] and [ForResource].
func ForType[T stream.Object](config *rest.Config, resource schema.GroupVersionResource, example runtime.Object, opts ...ResourceOption) (*Resource[T], error) {
	t, want := reflect.TypeOf(example), reflect.TypeFor[T]()
	if t == nil || !t.AssignableTo(want) {
		return nil, fmt.Errorf("client of %s: example is a %T, want a %s: %w", resource.GroupResource(), example, want, ErrExample)
	}
	o := newResourceOptions(opts)
	if o.kind.Empty() && !stream.IsNil(example) {
		o.kind = example.GetObjectKind().GroupVersionKind()
	}
	kind, err := kindOf(t, &o)
	switch {
	case err != nil && (resource.Resource == "" || !o.kind.Empty()):
		return nil, err
	case resource.Resource == "":
		return forKind[T](config, t, kind, o)
	}
	if err == nil && kind.GroupVersion() != resource.GroupVersion() {
		return nil, fmt.Errorf("client of %s: example is a %s of the kind %s, want one of %s: %w", resource.GroupResource(), t, kind, resource.GroupVersion(), ErrExample)
	}
	o.kind = kind
	return connect[T](config, t, resource, "", o)
}

// ErrNoStruct means that T is not a pointer to a struct.
var ErrNoStruct = decode.ErrNoStruct

// ErrNoMetadata means that T does not decode an object's metadata.
var ErrNoMetadata = errors.New("type has no metadata in JSON: embed metav1.ObjectMeta with the tag `json:\"metadata\"`")

// ForResource returns the client of a resource in one namespace. An empty namespace means all
// namespaces, or a resource without namespaces. ForResource returns [ErrNoStruct] unless T is a
// pointer to a struct, [ErrNoMetadata] if T has no metadata, and an error if the config is invalid.
// T determines the requested content types; the config does not. Without QPS or RateLimiter in the
// config, the client does not limit its requests: the server has priority and fairness for that.
func ForResource[T stream.Object](config *rest.Config, resource schema.GroupVersionResource, namespace string, opts ...ResourceOption) (*Resource[T], error) {
	return connect[T](config, reflect.TypeFor[T](), resource, namespace, newResourceOptions(opts))
}

// connect returns the client of a resource, with a REST client of its own.
func connect[T stream.Object](config *rest.Config, t reflect.Type, resource schema.GroupVersionResource, namespace string, o resourceOptions) (*Resource[T], error) {
	r, err := newResource[T](t, resource, namespace, o)
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.APIPath = "/apis"
	if resource.Group == "" {
		own.APIPath = "/api"
	}
	version := resource.GroupVersion()
	own.GroupVersion = &version
	own.NegotiatedSerializer = statuses
	own.ContentType, own.AcceptContentTypes = "", ""
	if own.UserAgent == "" {
		own.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if own.QPS == 0 && own.RateLimiter == nil {
		own.QPS = -1 // the default of client-go is 5 requests a second
	}
	if o.http != nil {
		r.rest, err = rest.RESTClientForConfigAndClient(own, restguard.Client(o.http, guarded))
	} else {
		own.Wrap(guarded)
		r.rest, err = rest.RESTClientFor(own)
	}
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", r.name, err)
	}
	r.patient, r.timeout = restguard.WithoutTimeout(r.rest)
	return r, nil
}

// FromRESTClient is [ForResource] over a REST client of one API group and version, such as a
// generated clientset's:
//
//	client.FromRESTClient[*corev1.Pod](clientset.CoreV1().RESTClient(), "pods", "default")
//
// Fake clientsets return a nil client. Run and every method then return an error.
func FromRESTClient[T stream.Object](client rest.Interface, resource, namespace string, opts ...ResourceOption) (*Resource[T], error) {
	var version schema.GroupVersion
	if !stream.IsNil(client) {
		version = client.APIVersion()
	}
	r, err := newResource[T](reflect.TypeFor[T](), version.WithResource(resource), namespace, newResourceOptions(opts))
	if err != nil {
		return nil, err
	}
	r.rest = restguard.Copy(client, guarded)
	r.patient, r.timeout = restguard.WithoutTimeout(r.rest)
	return r, nil
}

// newResource returns a Resource that decodes into t, without a REST client.
func newResource[T stream.Object](t reflect.Type, resource schema.GroupVersionResource, namespace string, o resourceOptions) (*Resource[T], error) {
	r := &Resource[T]{
		resource: resource.Resource, namespace: namespace,
		name: resource.GroupResource().String() + "/" + resource.Version, options: o,
		answers: new(answers), decoders: new(stream.Pool[T]), oneDecoders: new(stream.Pool[T]),
		expected: expected{learned: &learned{turn: make(chan struct{}, 1)}},
	}
	if kind, err := kindOf(t, &o); err == nil && kind.GroupVersion() == resource.GroupVersion() {
		r.kind = kind
		apiVersion, name := kind.ToAPIVersionAndKind()
		o.decoding.MetadataKind = metav1.TypeMeta{APIVersion: apiVersion, Kind: name}
		r.options = o
	}
	var err error
	if r.codec, err = decode.ForType[T](t, o.decoding); err != nil {
		return nil, fmt.Errorf("client of %s: %w", r.name, err)
	}
	if !seenMetadata(t) && hasNoMetadata(r.codec) {
		return nil, fmt.Errorf("client of %s: %s: %w", r.name, t, ErrNoMetadata)
	}
	withMetadata.Store(t, nil)
	generated := isMessage(t.Elem())
	r.protobuf = generated && r.codec.Protobuf() && !o.withoutProtobuf
	r.expected.expect(resource.GroupVersion(), resource.Resource, t.Elem(), generated)
	if o.kind.Kind != "" {
		r.expected.given = o.kind.Kind
	}
	return r, nil
}

// isMessage reports whether the Unmarshal of a type decodes a whole object. A struct that embeds
// metav1.ObjectMeta inherits an Unmarshal for the metadata alone. A struct that embeds an object
// inherits an Unmarshal that ignores the struct's other fields.
func isMessage(t reflect.Type) (is bool) {
	defer func() {
		if recover() != nil {
			is = false // the method belongs to an embedded pointer, which is nil
		}
	}()
	for i := range t.NumField() {
		field := t.Field(i)
		if _, object := reflect.New(field.Type).Interface().(metav1.Object); object && field.Anonymous && field.Type != reflect.TypeFor[metav1.ObjectMeta]() {
			return false
		}
	}
	object := reflect.New(t).Interface()
	message, ok := object.(interface{ Unmarshal([]byte) error })
	// Field 1 of an object is its metadata. Field 1 of the metadata is the name.
	return ok && message.Unmarshal([]byte("\x0a\x03\x0a\x01x")) == nil && object.(metav1.Object).GetName() == "x"
}

// withMetadata are types that decode an object's metadata: a program makes hundreds of clients of one type.
var withMetadata sync.Map

func seenMetadata(t reflect.Type) bool {
	_, seen := withMetadata.Load(t)
	return seen
}

// hasNoMetadata reports whether T does not decode an object's metadata. The reflector would reject
// every such object.
func hasNoMetadata[T stream.Object](codec *decode.Codec[T]) (none bool) {
	defer func() {
		if recover() != nil {
			none = false // as with an embedded pointer, which the first object shows
		}
	}()
	object, err := codec.NewDecoder().Decode(wire.JSON, []byte(`{"metadata":{"name":"x","uid":"x","resourceVersion":"1"}}`))
	return err == nil && object.GetName() == "" && object.GetUID() == "" && object.GetResourceVersion() == ""
}

// ErrNotGenerated means that [FromTypedClient] received a client that does not expose its REST
// client. Clients from client-go's generator expose it since Kubernetes 1.31. Clients of fake
// clientsets have none, and wrappers hide it.
var ErrNotGenerated = errors.New("client does not show its REST client: use FromRESTClient or ForResource")

// Getter is a client that gets single objects, as every generated client does.
type Getter[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// FromTypedClient is [FromRESTClient] for a typed client of a generated clientset. It keeps the
// client's namespace:
//
//	pods, err := client.FromTypedClient(clientset.CoreV1().Pods("default"))
//
// A typed client does not reveal its resource. So the first request asks the server for the list of
// resources in the client's group and version. [WithKind] or [WithScheme] determine the kind.
// Without them, the kind is the name of T's type, which code generators set to the kind. If the
// server does not serve the kind, the reflector behaves as with [For].
//
// A reflector does not use FromTypedClient by itself for every generated client. A type that embeds
// such a client would look like the client, and the reflector would bypass its overridden methods.
// The program should also choose it, because these objects share values and state their kind.
func FromTypedClient[T stream.Object](client Getter[T], opts ...ResourceOption) (*Resource[T], error) {
	own, ok := any(client).(interface {
		GetClient() rest.Interface
		GetNamespace() string
	})
	if !ok || stream.IsNil(client) || stream.IsNil(own.GetClient()) {
		return nil, fmt.Errorf("%T: %w", client, ErrNotGenerated)
	}
	r, err := FromRESTClient[T](own.GetClient(), "", own.GetNamespace(), opts...)
	if err != nil {
		return nil, err
	}
	version := own.GetClient().APIVersion()
	kind := version.WithKind(reflect.TypeFor[T]().Elem().Name())
	if !r.options.kind.Empty() || r.options.scheme != nil {
		if kind, err = kindOf(reflect.TypeFor[T](), &r.options); err != nil {
			return nil, err
		}
		kind = version.WithKind(kind.Kind)
	}
	r.name = kind.GroupKind().String() + "/" + kind.Version
	r.kind, r.expected.given = kind, kind.Kind
	r.finder = newFinder(kind, &listed{rest: r.rest})
	return r, nil
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

// ResourceOption configures a [Resource].
type ResourceOption interface{ applyResource(*resourceOptions) }

type resourceOptions struct {
	decoding        decode.Options
	unknown         func(*answer.DecodeError)
	maxObjectBytes  int // 0 is the default
	withoutProtobuf bool

	http   *http.Client // nil: one of the config
	kind   schema.GroupVersionKind
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

func newResourceOptions(opts []ResourceOption) (o resourceOptions) {
	for _, opt := range opts {
		opt.applyResource(&o)
	}
	return o
}

// selects reports whether the HTTP client edits the options of requests, as that of a factory with a tweak.
func (o *resourceOptions) selects() bool {
	if o.http == nil {
		return false
	}
	for to := o.http.Transport; to != nil; {
		if of, ok := to.(stream.Selecting); ok && of.SelectsObjects() {
			return true
		}
		wrapper, ok := to.(utilnet.RoundTripperWrapper)
		if !ok {
			break
		}
		to = wrapper.WrappedRoundTripper()
	}
	return false
}

type resourceOptionFunc func(*resourceOptions)

func (f resourceOptionFunc) applyResource(o *resourceOptions) { f(o) }

// WithoutInterning gives each object its own values. By default the objects of lists and watches share
// equal values: labels and annotations, owner references, resource requirements, environments, ports,
// mounts, tolerations, probes, the fields of managed fields, and similar types, and the objects and
// arrays inside of an Unstructured. The tables of shared values are bounded, and the Resource skips
// the lookup for fields whose values seldom repeat. Use the option for code that edits objects in
// place, such as a transform that was written for client-go.
func WithoutInterning() ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.decoding.WithoutInterning = true })
}

// WithoutManagedFields drops metadata.managedFields from the objects. They are often a third of an
// object, and only servers need them. Lists and watches ask the server not to send them, which
// Kubernetes 1.38 can do (KEP-5958); what a server sends all the same is skipped before it is decoded.
func WithoutManagedFields() ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.decoding.SkipManagedFields = true })
}

// WithUnknownFields sets a function that receives an error for each JSON object with a field that T
// does not have; an Unstructured has all. The error names the first such field. The Resource still
// decodes the object, but slower. Several decoding goroutines may call the function at once.
// Protobuf does not name fields, so the function gets no calls for protobuf: see [WithoutProtobuf].
func WithUnknownFields(report func(*answer.DecodeError)) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.unknown = report })
}

// WithMaxObjectBytes sets the largest size of an object on the wire, in bytes. The Resource aborts a
// response with a larger object and returns an [*answer.ResponseError] that is [ErrTooLarge]. Without this
// option, or if bytes is not positive, the limit is 16 MiB, ten times that of etcd. An extension
// server with a storage of its own may need more, and a program with little memory less.
func WithMaxObjectBytes(bytes int) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.maxObjectBytes = max(bytes, 0) })
}

// WithoutProtobuf requests JSON although T has a generated Unmarshal.
func WithoutProtobuf() ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.withoutProtobuf = true })
}

// WithHTTPClient makes the Resource send its requests through an HTTP client, as several clients of
// a program share one. Transport, credentials, time-out and user agent are then those of the HTTP
// client; the config still sets the host and the rate limit. Without this option the Resource makes
// an HTTP client of the config. [FromRESTClient] ignores the option.
func WithHTTPClient(client *http.Client) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.http = client })
}

// WithKind sets T's kind and version for [For], for a T that no scheme has.
func WithKind(kind schema.GroupVersionKind) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.kind = kind })
}

// WithScheme gives [For] a scheme that has T, such as the scheme of a generated clientset.
func WithScheme(scheme *runtime.Scheme) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.scheme = scheme })
}

// WithRESTMapper makes [For] map a kind to its resource with the given mapper, so that several
// resources share the results of discovery. Without this option the Resource requests the server's
// list of the resources in the kind's group and version. The views of [Resource.In] share the answer.
//
// The Resource resets a mapper that supports it in three cases: the mapper twice does not know a
// kind, or twice names a resource that the server does not know, or its answer no longer fits a
// request or an object. All users of the mapper then wait for discovery, so the Resource resets it
// as seldom as client-C2 says. Without this option the Resource requests the list again in the same
// cases.
//
// A shared deferred mapper serves one caller at a time. A caller that waits for another caller's
// requests does not notice the end of its own context. The requests end with the other caller's
// context, or after the timeout of the mapper's discovery client. That timeout is 32 seconds for
// each request, unless the client's config sets another one. With client-go 0.36 the requests of a
// deferred mapper end only after the timeout.
func WithRESTMapper(mapper meta.RESTMapper) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.mapper = mapper })
}
