package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Resource reads and writes the objects of one resource. It is a [reflector.Client] that decodes the
// server's responses straight into T. T needs only a Kubernetes object's metadata and JSON tags: no generated code, no scheme.
// If T has a generated Unmarshal, the Resource requests protobuf. Where T is an interface, this and
// the options apply to the type of the example: see [ForType].
//
// The objects of lists and watches share equal parts, such as their labels: see [Intern]. Do not edit
// them in place; edit a DeepCopy. The objects of Get and of writes share nothing. If T has a metav1.TypeMeta, each object has its kind and apiVersion, both from lists
// and from watches. The objects of generated clients do not have them.
//
// Create one with [For], [ForResource], [ForType], [FromRESTClient] or [FromTypedClient]. All methods
// are safe for concurrent use.
type Resource[T source.Object] struct {
	rest rest.Interface
	// patient is rest without the timeout of its config, for watches. That timeout bounds a request
	// with its whole answer, and would end every watch; here it bounds the time until the answer
	// begins.
	patient rest.Interface
	timeout time.Duration

	resource  string
	namespace string
	name      string                  // for errors and logs
	kind      schema.GroupVersionKind // empty if unknown
	finder    *finder                 // not nil if only the kind is known
	options   resourceOptions
	codec     *decode.Codec[T]
	expected  expected
	protobuf  bool        // requested from the server
	onlyJSON  atomic.Bool // the server refused other content types

	// The fields below are of all views.

	answers     *answers
	decoders    *stream.Pool[T] // of lists and watches
	oneDecoders *stream.Pool[T] // of responses with one object
}

// ResourceList is a list of the objects of a [Resource].
type ResourceList[T source.Object] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
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
func ForResource[T source.Object](config *rest.Config, resource schema.GroupVersionResource, namespace string, opts ...ResourceOption) (*Resource[T], error) {
	return connect[T](config, reflect.TypeFor[T](), resource, namespace, newResourceOptions(opts))
}

// connect returns the client of a resource, with a REST client of its own.
func connect[T source.Object](config *rest.Config, t reflect.Type, resource schema.GroupVersionResource, namespace string, o resourceOptions) (*Resource[T], error) {
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
func FromRESTClient[T source.Object](client rest.Interface, resource, namespace string, opts ...ResourceOption) (*Resource[T], error) {
	var version schema.GroupVersion
	if !source.IsNil(client) {
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
func newResource[T source.Object](t reflect.Type, resource schema.GroupVersionResource, namespace string, o resourceOptions) (*Resource[T], error) {
	r := &Resource[T]{
		resource: resource.Resource, namespace: namespace,
		name: resource.GroupResource().String() + "/" + resource.Version, options: o,
		answers: new(answers), decoders: new(stream.Pool[T]), oneDecoders: new(stream.Pool[T]),
		expected: expected{learned: new(learned)},
	}
	if kind, err := kindOf(t, &o); err == nil && kind.GroupVersion() == resource.GroupVersion() {
		r.kind = kind
		apiVersion, name := kind.ToAPIVersionAndKind()
		o.decoding = append(slices.Clip(o.decoding), decode.MetadataKind(metav1.TypeMeta{APIVersion: apiVersion, Kind: name}))
		r.options = o
	}
	var err error
	if r.codec, err = decode.ForType[T](t, o.decoding...); err != nil {
		return nil, fmt.Errorf("client of %s: %w", r.name, err)
	}
	if hasNoMetadata(r.codec) {
		return nil, fmt.Errorf("client of %s: %s: %w", r.name, t, ErrNoMetadata)
	}
	generated := r.codec.Protobuf() && isMessage(t.Elem())
	r.protobuf = generated && !o.withoutProtobuf
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

// hasNoMetadata reports whether T does not decode an object's metadata. The reflector would reject
// every such object.
func hasNoMetadata[T source.Object](codec *decode.Codec[T]) (none bool) {
	defer func() {
		if recover() != nil {
			none = false // as with an embedded pointer, which the first object shows
		}
	}()
	object, err := codec.NewDecoder().Decode(wire.JSON, []byte(`{"metadata":{"name":"x","uid":"x","resourceVersion":"1"}}`))
	return err == nil && object.GetName() == "" && object.GetUID() == "" && object.GetResourceVersion() == ""
}

// Get returns an object. It returns a [*DecodeError] if the response does not decode into T, and a
// [*ResponseError] if the request failed or the response is another object.
func (r *Resource[T]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	var none T
	resource, namespace, err := r.place(ctx, "")
	if err != nil {
		return none, r.failed("get", "", name, err)
	}
	request := r.one("GET", resource, namespace).Name(name).SpecificallyVersionedParams(&opts, parameters, metaVersion)
	object, _, err := r.object(ctx, "GET", resource, request, namespace, name)
	if err != nil {
		return none, r.failed("get", namespace, name, err)
	}
	return object, nil
}

// GetJSON is [Resource.Get] for the object's JSON, which also has the members that T does not show.
func (r *Resource[T]) GetJSON(ctx context.Context, name string, opts metav1.GetOptions) ([]byte, error) {
	resource, namespace, err := r.place(ctx, "")
	if err != nil {
		return nil, r.failed("get", "", name, err)
	}
	request := r.one("GET", resource, namespace).Name(name).SpecificallyVersionedParams(&opts, parameters, metaVersion)
	a, err := r.ask(ctx, "GET", request)
	if err != nil {
		return nil, r.failed("get", namespace, name, r.failedOne(resource, namespace, err))
	}
	defer a.Close()
	data, err := a.ReadAll(r.options.maxObjectBytes)
	if err != nil {
		return nil, r.failed("get", namespace, name, err)
	}
	return data, nil
}

// List returns a page of objects. It returns a [*DecodeError] if one of them does not fit T, and a
// [*ResponseError] if the response is not a list.
func (r *Resource[T]) List(ctx context.Context, opts metav1.ListOptions) (*ResourceList[T], error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	p, meta, err := r.list(ctx, opts, source.Wants[T]{})
	if err != nil {
		return nil, err
	}
	if len(p.Rejections) > 0 {
		return nil, p.Rejections[0].Err
	}
	return &ResourceList[T]{TypeMeta: meta.TypeMeta, ListMeta: meta.ListMeta, Items: p.Items}, nil
}

// Watch returns a watch. Its objects are of type T if T is a runtime.Object. Bookmarks have only
// metadata. Other events are ERROR events.
func (r *Resource[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	s, err := r.watch(ctx, opts, source.Wants[T]{})
	if err != nil {
		return nil, err
	}
	return source.NewWatch[T](ctx, s), nil
}

// Source returns the source of the resource for a reflector. It returns nil if self is a wrapper of
// the Resource.
func (r *Resource[T]) Source(self any) source.Source[T] {
	if self != any(r) {
		return nil
	}
	return resourceSource[T]{r}
}

func (r *Resource[T]) check() error {
	if r == nil || source.IsNil(r.rest) {
		return source.ErrNoClient
	}
	return nil
}

// resourceSource is the source of a Resource. It delivers the other objects of a list if one object
// does not fit T.
type resourceSource[T source.Object] struct{ *Resource[T] }

func (s resourceSource[T]) List(ctx context.Context, opts metav1.ListOptions, w source.Wants[T]) (source.Page[T], error) {
	p, meta, err := s.Resource.list(ctx, opts, w)
	if err == nil && p.ResourceVersion == "" && meta.Kind == "" {
		err = protocol.NoResourceVersion // the answer of something else, not a list without a version
	}
	return p, err
}

func (s resourceSource[T]) Watch(ctx context.Context, opts metav1.ListOptions, w source.Wants[T]) (source.Stream[T], error) {
	open, err := s.Resource.watch(ctx, opts, w)
	if err != nil {
		return nil, err
	}
	return open, nil
}

// ListsConsistently implements [source.Versioned].
func (s resourceSource[T]) ListsConsistently(ctx context.Context) (bool, error) {
	return listsConsistently(ctx, s.rest)
}

func (s resourceSource[T]) Check() error { return s.Resource.check() }

// scope returns what discovery said. It says nothing before the first request.
func (r *Resource[T]) scope() source.Scope {
	if r.namespace != "" {
		return source.Namespaced
	}
	if r.finder != nil {
		switch known, _ := r.finder.remembered(); {
		case known == (found{}):
		case known.namespaced:
			return source.Namespaced
		default:
			return source.ClusterScoped
		}
	}
	return source.UnknownScope
}

func (s resourceSource[T]) About() source.About {
	if s.Resource == nil {
		return source.About{}
	}
	return source.About{
		Resource: s.name, Namespace: s.namespace, Scope: s.scope(), Type: s.codec.Type(),
		WatchLists: s.Check() == nil && source.CanStream(s.rest),
	}
}
