package client

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Resource reads and writes the objects of one resource. It is a [reflector.Client] that decodes the
// server's responses straight into T. T needs only a Kubernetes object's metadata and JSON tags: no generated code, no scheme.
// If T has a generated Unmarshal, and its messages cannot contain themselves as those of a CustomResourceDefinition
// can, the Resource requests protobuf. Where T is an interface, this and
// the options apply to the type of the example: see [ForType].
//
// The objects of lists and watches share equal parts, such as their labels: see [WithoutInterning]. Do not edit
// them in place; edit a DeepCopy. The objects of Get and of writes share nothing. If T has a metav1.TypeMeta, each object has its kind and apiVersion, both from lists
// and from watches. The objects of generated clients do not have them.
//
// Create one with [For], [ForResource], [ForType], [FromRESTClient] or [FromTypedClient]. All methods
// are safe for concurrent use.
type Resource[T stream.Object] struct {
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
	wholeOnly atomic.Bool // the server refused to drop fields

	// The fields below are of all views.

	answers     *answers
	decoders    *stream.Pool[T] // of lists and watches
	oneDecoders *stream.Pool[T] // of responses with one object
}

// ResourceList is a list of the objects of a [Resource].
type ResourceList[T stream.Object] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

// In returns a view of the client for one namespace. An empty namespace means all of them, and is right for a kind
// whose objects have no namespaces. With a namespace, such a kind fails with [ErrClusterScoped] at the first
// request. All views share what discovery has found.
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
	in.wholeOnly.Store(r.wholeOnly.Load())
	return in
}

// Namespace returns the namespace of the view, or an empty one for all.
func (r *Resource[T]) Namespace() string {
	if r == nil {
		return ""
	}
	return r.namespace
}

// Get returns an object. It returns an [*answer.DecodeError] if the response does not decode into T, and a
// [*answer.ResponseError] if the request failed or the response is another object.
func (r *Resource[T]) Get(ctx context.Context, name string, opts metav1.GetOptions) (none T, err error) {
	resource, namespace, err := r.place(ctx, "")
	if err != nil {
		return none, r.failed("get", "", name, err)
	}
	request := r.one("GET", resource, namespace).Name(name).SpecificallyVersionedParams(&opts, parameters, metaVersion)
	ctx, cancel := r.limit(ctx, request)
	defer cancel()
	object, _, err := r.object(ctx, "GET", resource, request, namespace, name)
	if err != nil {
		return none, r.failed("get", namespace, name, err)
	}
	return object, nil
}

// GetJSON is [Resource.Get] for the object's JSON, which also has the members that T does not show. Of a
// PartialObjectMetadata it has only the metadata, because that is all that the request asks for.
func (r *Resource[T]) GetJSON(ctx context.Context, name string, opts metav1.GetOptions) ([]byte, error) {
	resource, namespace, err := r.place(ctx, "")
	if err != nil {
		return nil, r.failed("get", "", name, err)
	}
	request := r.one("GET", resource, namespace).Name(name).SpecificallyVersionedParams(&opts, parameters, metaVersion)
	ctx, cancel := r.limit(ctx, request)
	defer cancel()
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

// List returns a page of objects. It returns an [*answer.DecodeError] if one of them does not fit T, and a
// [*answer.ResponseError] if the response is not a list.
func (r *Resource[T]) List(ctx context.Context, opts metav1.ListOptions) (*ResourceList[T], error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	var objects []T
	var undecoded error // the first one
	meta, err := r.list(ctx, opts, stream.Wants[T]{Take: func(i *stream.Item[T]) {
		if i.Write.Err == nil {
			objects = append(objects, i.Write.Object)
		} else if undecoded == nil {
			undecoded = i.Write.Err
		}
	}})
	if err == nil {
		err = undecoded
	}
	if err != nil {
		return nil, err
	}
	return &ResourceList[T]{TypeMeta: meta.TypeMeta, ListMeta: meta.ListMeta, Items: objects}, nil
}

// Watch returns a watch. Its objects are of type T if T is a runtime.Object. Bookmarks have only
// metadata. Other events are ERROR events.
func (r *Resource[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	s, err := r.watch(ctx, opts, stream.Wants[T]{})
	if err != nil {
		return nil, err
	}
	return stream.NewChannel[T](ctx, s), nil
}

// SharesParts reports whether the objects of lists and watches share equal parts, as they do without
// [WithoutInterning].
func (r *Resource[T]) SharesParts() bool { return r != nil && !r.options.decoding.WithoutInterning }

// Source returns the source of the resource for a reflector.
func (r *Resource[T]) Source() stream.Source[T] { return resourceSource[T]{r} }

func (r *Resource[T]) check() error {
	if r == nil || stream.IsNil(r.rest) {
		return stream.ErrNoClient
	}
	return nil
}

// resourceSource is the source of a Resource. It delivers the other objects of a list if one object
// does not fit T.
type resourceSource[T stream.Object] struct{ *Resource[T] }

func (s resourceSource[T]) List(ctx context.Context, opts metav1.ListOptions, w stream.Wants[T]) (stream.Page, error) {
	meta, err := s.Resource.list(ctx, opts, w)
	if errors.Is(err, errNoList) {
		err = protocol.NoResourceVersion
	}
	return stream.Page{Version: meta.ResourceVersion, Continue: meta.Continue, Sharded: meta.ShardInfo != nil}, err
}

func (s resourceSource[T]) Watch(ctx context.Context, opts metav1.ListOptions, w stream.Wants[T]) (stream.Items[T], error) {
	open, err := s.Resource.watch(ctx, opts, w)
	if err != nil {
		return nil, err
	}
	return open, nil
}

// ListsConsistently implements [stream.Versioned].
func (s resourceSource[T]) ListsConsistently(ctx context.Context) (bool, error) {
	return listsConsistently(ctx, s.rest)
}

func (s resourceSource[T]) Check() error { return s.Resource.check() }

// LearnScope asks discovery for the scope unless it is known from a recent answer.
func (s resourceSource[T]) LearnScope(ctx context.Context) error {
	if s.namespace != "" {
		return nil
	}
	return s.expected.learned.learnScope(ctx, func() (stream.Scope, error) { return s.askScope(ctx) })
}

// askScope asks discovery for the scope. Keys whose scope is known need no answer, so it stands if none comes within
// a second, and only the server's list can contradict it: other kinds may use the finder's mapper, which would be reset.
// If the list does contradict it, the finder has the time of ctx, or a slow mapper would never find the new scope.
func (s resourceSource[T]) askScope(ctx context.Context) (stream.Scope, error) {
	known, resource, last := s.scope(), s.resource, found{}
	if s.finder != nil {
		last, _ = s.finder.remembered()
		resource = last.resource
	}
	if known == stream.UnknownScope || resource == "" {
		if s.finder == nil {
			return s.listedScope(ctx, resource)
		}
		_, _, err := s.finder.find(ctx, found{}) // which may be known meanwhile
		return s.scope(), err
	}
	limited, cancel := context.WithTimeout(ctx, unknownInterval)
	defer cancel()
	listed, err := s.listedScope(limited, resource)
	switch {
	case err != nil:
		return known, context.Cause(ctx)
	case s.finder == nil || listed == known:
		return listed, nil
	}
	_, _, err = s.finder.find(ctx, last)
	return s.scope(), err
}

// listedScope returns what the server's list of the group and version says of a resource. It says nothing if the
// resource is missing, or that of another kind.
func (s resourceSource[T]) listedScope(ctx context.Context, resource string) (stream.Scope, error) {
	is, err := (&listed{rest: s.rest}).resource(ctx, s.expected.version.WithResource(resource))
	switch {
	case err != nil || is.Kind == "" || s.finder != nil && is.Kind != s.finder.kind.Kind:
		return stream.UnknownScope, err
	case is.Namespaced:
		return stream.Namespaced, nil
	}
	return stream.ClusterScoped, nil
}

// scope returns what discovery said. It says nothing before the first request.
func (r *Resource[T]) scope() stream.Scope {
	if r.namespace != "" {
		return stream.Namespaced
	}
	if r.finder != nil {
		switch known, _ := r.finder.remembered(); {
		case known == (found{}):
			return stream.UnknownScope
		case known.namespaced:
			return stream.Namespaced
		default:
			return stream.ClusterScoped
		}
	}
	return stream.Scope(r.expected.learned.scope.Load())
}

func (s resourceSource[T]) About() stream.About {
	if s.Resource == nil {
		return stream.About{}
	}
	return stream.About{
		Resource: s.name, Namespace: s.namespace, Selects: s.options.selects(), Scope: s.scope(),
		WatchLists: s.Check() == nil && stream.CanStream(s.rest),
	}
}

// acceptIdentity asks for the metadata of an object: the rest may be a megabyte, and may not fit T. An
// old extension server cannot convert, and sends the object.
const acceptIdentity = mediaJSON + ";as=PartialObjectMetadata;g=" + metav1.GroupName + ";v=v1," + mediaJSON

// Lookup implements [stream.Lookups], also for another namespace than the client's.
func (s resourceSource[T]) Lookup(ctx context.Context, key store.Key) (types.UID, bool, error) {
	r := s.In(key.Namespace)
	resource, namespace, err := r.place(ctx, key.Namespace)
	// What discovery said may be old, and a cleanup may follow: only the server says that it has no such path.
	misfits := errors.Is(err, ErrNoNamespace) || errors.Is(err, ErrClusterScoped)
	if err != nil && !misfits {
		return "", false, r.failed("get", key.Namespace, key.Name, err)
	}
	request := r.rest.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(key.Name).SetHeader("Accept", acceptIdentity)
	a, err := r.ask(ctx, "GET", request)
	switch {
	case stream.IsObjectMissing(err), misfits && stream.IsResourceMissing(err):
		return "", false, nil
	case err != nil:
		return "", false, r.failed("get", namespace, key.Name, r.failedOne(resource, namespace, err))
	}
	defer a.Close()
	data, err := a.ReadAll(r.options.maxObjectBytes)
	if err != nil {
		return "", false, r.failed("get", namespace, key.Name, err)
	}
	var object metav1.PartialObjectMetadata
	switch err := json.Unmarshal(data, &object); {
	case err != nil:
		return "", false, r.failed("get", namespace, key.Name, a.Fail(nil, discreet.Error(err)))
	case object.Name != key.Name:
		want, got := cut.Text(key.Name, cut.MaxName), cut.Text(object.Name, cut.MaxName)
		return "", false, r.failed("get", namespace, key.Name, a.Fail(nil, &MismatchError{What: "name", Want: want, Got: got}))
	}
	return object.UID, true, nil
}
