package client

import (
	"net/http"

	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ResourceOption configures a [Resource].
type ResourceOption interface{ applyResource(*resourceOptions) }

type resourceOptions struct {
	decoding        []decode.Option
	shares          bool // without WithoutInterning
	unknown         func(*answer.DecodeError)
	maxObjectBytes  int // 0 is the default
	withoutProtobuf bool

	http   *http.Client // nil: one of the config
	kind   schema.GroupVersionKind
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

func newResourceOptions(opts []ResourceOption) (o resourceOptions) {
	o.shares = true
	for _, opt := range opts {
		opt.applyResource(&o)
	}
	return o
}

type resourceOptionFunc func(*resourceOptions)

func (f resourceOptionFunc) applyResource(o *resourceOptions) { f(o) }

func decoding(option decode.Option) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.decoding = append(o.decoding, option) })
}

// WithoutInterning gives each object its own values. By default the objects of lists and watches share
// equal values: labels and annotations, owner references, resource requirements, environments, ports,
// mounts, tolerations, probes, the fields of managed fields, and similar types, and the objects and
// arrays inside of an Unstructured. The tables of shared values are bounded, and the Resource skips
// the lookup for fields whose values seldom repeat. Use the option for code that edits objects in
// place, such as a transform that was written for client-go.
func WithoutInterning() ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) {
		o.shares = false
		decoding(decode.WithoutInterning()).applyResource(o)
	})
}

// WithoutManagedFields drops metadata.managedFields from the objects. They are often a third of an
// object, and only servers need them. Lists and watches ask the server not to send them, which
// Kubernetes 1.38 can do (KEP-5958); what a server sends all the same is skipped before it is decoded.
func WithoutManagedFields() ResourceOption { return decoding(decode.SkipManagedFields()) }

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
