package reflector

import (
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ResourceOption configures a [Resource].
type ResourceOption interface{ applyResource(*resourceOptions) }

type resourceOptions struct {
	decoding        []decode.Option
	unknown         func(*DecodeError)
	frameLimit      int // 0 is the default
	decoders        int // 0 is the default
	withoutProtobuf bool
	cbor            bool
	skipManaged     bool

	kind   schema.GroupVersionKind
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

type resourceOptionFunc func(*resourceOptions)

func (f resourceOptionFunc) applyResource(o *resourceOptions) { f(o) }

func decoding(option decode.Option) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.decoding = append(o.decoding, option) })
}

// Share makes equal values of type X be decoded once and shared between objects. It is so
// by default for labels and annotations, owner references, resource requirements,
// environments, ports, mounts, tolerations, probes, the fields of managed fields and their
// like. X must be the exact type of a struct's field, or of the elements of a slice, a map
// or a pointer. What is remembered is bounded, and where little repeats nothing is looked up.
func Share[X any]() ResourceOption { return decoding(decode.Share[X]()) }

// WithoutSharing makes each object have values of its own; a [Share] after it shares
// values of that one type.
func WithoutSharing() ResourceOption { return decoding(decode.WithoutSharing()) }

// WithoutManagedFields leaves metadata.managedFields out of the objects: they are often
// a third of them, and only servers need them.
func WithoutManagedFields() ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) {
		o.decoding = append(o.decoding, decode.SkipManagedFields())
		o.skipManaged = true
	})
}

// WithUnknownFields sets a function that is told of each JSON object with a field that T
// does not have, by the first such field. The object is decoded none the less, but
// slower. The function is called by those who decode, by several at once. Protobuf does
// not name fields, so that nothing is reported where it is spoken: see [WithoutProtobuf].
func WithUnknownFields(report func(*DecodeError)) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.unknown = report })
}

// WithFrameLimit sets how many bytes an object may have on the wire: an answer with a larger
// one is given up, with a [*ResponseError] that is [ErrTooLarge]. Without it, or if it is not
// positive, the limit is 16 MiB.
func WithFrameLimit(bytes int) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.frameLimit = max(bytes, 0) })
}

// WithoutProtobuf asks the server for JSON although T has a generated Unmarshal.
func WithoutProtobuf() ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.withoutProtobuf = true })
}

// WithCBOR asks the server for CBOR instead of protobuf, and for JSON where it does not speak
// that, as no server does by default. It is for the server's sake: what comes is shorter than
// JSON and is decoded by way of it, which costs more here.
func WithCBOR() ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.cbor = true })
}

// WithDecoders sets how many goroutines may decode one list or watch at the same time, the
// one that reads it among them. They come when more arrives than one can decode, and go when
// all is done; what they decode is passed on in the order in which it came. Without it, or if
// it is not positive, there are as many as processors (GOMAXPROCS). Beside the goroutines that
// read, one a list or watch, all resources of a program together have no more helpers than
// processors less one, whatever is set here.
func WithDecoders(goroutines int) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.decoders = max(goroutines, 0) })
}

// WithKind tells [ForKind] T's kind, with its version, for a T that no scheme has.
func WithKind(kind schema.GroupVersionKind) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.kind = kind })
}

// WithScheme tells [ForKind] a scheme that has T, such as that of a generated clientset.
func WithScheme(scheme *runtime.Scheme) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.scheme = scheme })
}

// WithRESTMapper makes [ForKind] ask a mapper which resource a kind is, so that several
// resources share what the server was asked once. One that can be reset is, when it twice does
// not know a kind, or twice names a resource that the server does not know; but only once in ten
// seconds, since all who share it then wait for discovery. Without it each resource has one of its
// own: client-go's deferred mapper over its discovery in memory.
//
// That mapper, if it is shared, answers one at a time, and who waits for another's requests does
// not notice that its own context ended. They end when the other's context does, or after the
// timeout of the mapper's discovery client, which is 32 seconds for each request unless its
// config says something else.
func WithRESTMapper(mapper meta.RESTMapper) ResourceOption {
	return resourceOptionFunc(func(o *resourceOptions) { o.mapper = mapper })
}
