package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	mediaJSON     = runtime.ContentTypeJSON
	mediaProtobuf = runtime.ContentTypeProtobuf
)

var (
	// ErrMalformed means that a response does not have the expected format.
	ErrMalformed = wire.ErrMalformed
	// ErrTruncated means that a response ended within an object or a list.
	ErrTruncated = wire.ErrTruncated
	// ErrTooLarge means that an object has more bytes than [WithMaxObjectBytes] allows.
	ErrTooLarge = wire.ErrTooLarge
	// ErrContentType means that a response has a content type that the request does not accept. A
	// proxy may have answered instead of the API server.
	ErrContentType = stream.ErrContentType
)

var (
	metaVersion = schema.GroupVersion{Version: "v1"}
	metaScheme  = newMetaScheme()
	// parameters encodes the options of requests into URLs.
	parameters = runtime.NewParameterCodec(metaScheme)
	// statuses decodes a server's status errors.
	statuses = serializer.NewCodecFactory(metaScheme).WithoutConversion()
)

func newMetaScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metaVersion)
	return s
}

// plural returns the resource's name in URLs for a request for one object, or else for a list or a
// watch. An empty namespace means all namespaces, or a resource without namespaces. Beside ErrClusterScoped or
// ErrNoNamespace, plural returns the name all the same.
func (r *Resource[T]) plural(ctx context.Context, namespace string, oneObject bool) (string, error) {
	if r.finder == nil {
		r.relearn(ctx)
		return r.resource, nil
	}
	misfit := func(to found) error {
		switch {
		case namespace != "" && !to.namespaced:
			return fmt.Errorf("%s: %w", r.finder.kind, ErrClusterScoped)
		case namespace == "" && to.namespaced && oneObject:
			return ErrNoNamespace
		}
		return nil
	}
	to, asked, err := r.finder.find(ctx, found{})
	if doubted := r.expected.learned.doubts.Swap(0) > 0; err == nil && !asked && (doubted || misfit(to) != nil) {
		to, _, err = r.finder.find(ctx, to)
	}
	if err == nil {
		err = misfit(to)
	}
	return to.resource, err
}

// relearn asks discovery for the kind of the resource if two answers in a row were of another kind
// than the first object; a single one may be a stray. Without an answer of discovery, the kind of
// the first object stays.
func (r *Resource[T]) relearn(ctx context.Context) {
	l := r.expected.learned
	if l.doubts.Load() < 2 || r.expected.given != "" || !l.rested() {
		return
	}
	found, err := (&listed{rest: r.rest}).resource(ctx, r.expected.version.WithResource(r.resource))
	if err == nil && found.Kind != "" {
		l.kind.Store(&found.Kind)
		l.doubts.Store(0)
	}
}

// missed discards what the Resource knows about the kind if err says that the server does not know
// the resource.
func (r *Resource[T]) missed(resource string, err error) {
	if !stream.IsResourceMissing(err) {
		return
	}
	r.expected.learned.forget()
	if r.finder != nil {
		r.finder.forget(resource)
	}
}

// failedOne returns the error of a request for one object, and calls missed. Without discovery, the
// Resource does not know whether the kind has namespaces. A server does not know the resource of
// such a kind in a request without a namespace. That 404 does not mean that the object is gone.
func (r *Resource[T]) failedOne(resource, namespace string, err error) error {
	r.missed(resource, err)
	if isOfAnotherKind(err) {
		r.expected.learned.doubts.Add(1)
	}
	if r.finder == nil && namespace == "" && stream.IsResourceMissing(err) {
		return fmt.Errorf("%w: server does not know the resource without a namespace: %v", ErrNoNamespace, err)
	}
	return err
}

// isOfAnotherKind reports whether an error may say that a resource has another kind than the object
// that was sent. A server that cannot decode the object says 400, and the validation of custom
// resources says 422.
func isOfAnotherKind(err error) bool {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsBadRequest(err):
		return true
	case !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil:
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "kind" || c.Field == "apiVersion"
	})
}

// accepts returns the accepted content types of lists and watches.
func (r *Resource[T]) accepts(watch bool) string {
	kind := "PartialObjectMetadataList"
	if watch {
		kind = "PartialObjectMetadata"
	}
	media := []string{mediaJSON}
	if r.protobuf && !r.onlyJSON.Load() {
		media = []string{mediaProtobuf, mediaJSON}
	}
	if r.codec.DropsManagedFields() && !r.wholeOnly.Load() {
		for i := range media {
			media[i] += dropManagedFields
		}
	}
	return r.accept(kind, media...)
}

// dropManagedFields asks the server to leave out the field that the decoder would skip (KEP-5958). The
// server may ignore it, as those before Kubernetes 1.38 do, so the decoder skips the field all the same.
const dropManagedFields = ";drop=metadata.managedFields"

// accept returns a list of content types. If T has only metadata, the server converts objects to a
// kind of metadata.
func (r *Resource[T]) accept(metadata string, media ...string) string {
	if r.expected.partial {
		for i := range media {
			media[i] += ";as=" + metadata + ";g=" + metav1.GroupName + ";v=v1"
		}
		media = append(media, mediaJSON) // an old extension server cannot convert
	}
	return strings.Join(media, ",")
}

// open sends a request for a list or a watch. If a server rejects the accepted content types, the
// Resource no longer asks it to drop fields from then on, and then requests JSON, which every server
// speaks.
func (r *Resource[T]) open(ctx context.Context, opts *metav1.ListOptions) (*stream.Response, error) {
	resource, err := r.plural(ctx, r.namespace, false)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, stream.HasOptions{}, true)
	from := r.rest
	if opts.Watch {
		from = r.patient
	}
	for {
		accepts := r.accepts(opts.Watch)
		request := from.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(resource).
			SpecificallyVersionedParams(opts, parameters, metaVersion).SetHeader("Accept", accepts)
		if opts.Watch {
			// As in client-go, the rate limiter does not apply to watches: they wait most of the
			// time.
			request.Throttle(nil)
		}
		// The reflector backs off by itself for the time in Retry-After, and State shows the
		// back-off.
		request.MaxRetries(0)
		a, err := r.ask(ctx, "GET", request)
		if apierrors.IsNotAcceptable(err) {
			switch {
			case strings.Contains(accepts, dropManagedFields):
				r.wholeOnly.Store(true)
				continue
			case strings.Contains(accepts, mediaProtobuf):
				r.onlyJSON.Store(true)
				continue
			}
		}
		r.missed(resource, err)
		return a, err
	}
}

// ask sends a request, and checks the content type of the response.
func (r *Resource[T]) ask(ctx context.Context, verb string, request *rest.Request) (*stream.Response, error) {
	a := &stream.Response{Request: verb + " " + request.URL().Redacted()}
	body, err := request.Stream(context.WithValue(ctx, responseKey{}, a))
	if err != nil {
		return nil, a.Refused(err)
	}
	a.Body = body
	return a, a.Expect()
}

// limit returns a context with the timeout of the config for a request that may be repeated: an http.Client applies
// it to each attempt alone, and not to the pauses in between. As in client-go, it begins after the rate limiter.
func (r *Resource[T]) limit(ctx context.Context, request *rest.Request) (context.Context, context.CancelFunc) {
	if r.timeout == 0 {
		return ctx, func() {}
	}
	if limiter := r.rest.GetRateLimiter(); limiter != nil && limiter.Wait(ctx) == nil {
		request.Throttle(&waited{RateLimiter: limiter})
	}
	return context.WithTimeout(ctx, r.timeout)
}

// waited is the rate limiter of a request that has waited for its first attempt. Those after it wait.
type waited struct {
	flowcontrol.RateLimiter
	repeats bool
}

func (w *waited) Wait(ctx context.Context) error {
	if !w.repeats {
		w.repeats = true
		return nil
	}
	return w.RateLimiter.Wait(ctx)
}

// reader returns the reader of the resource's responses.
func (r *Resource[T]) reader() *stream.Reader[T] {
	return &stream.Reader[T]{
		Resource: r.name, Type: r.codec.Type().String(),
		Unknown:              r.options.unknown,
		NewDecoder:           func(report func(error)) *decode.Decoder[T] { return r.newDecoder(report, true) },
		WithoutManagedFields: r.codec.DropsManagedFields(), MaxObjectBytes: r.options.maxObjectBytes, Pool: r.decoders,
		CheckKind: r.expected.check, CheckList: r.expected.checkList, CheckNamespace: r.checkNamespace,
	}
}

// oneReader returns the reader of responses with one object. The caller may change such an object,
// so it shares no values with other objects.
func (r *Resource[T]) oneReader() *stream.Reader[T] {
	reader := r.reader()
	reader.Pool = r.oneDecoders
	reader.NewDecoder = func(report func(error)) *decode.Decoder[T] {
		return r.newDecoder(report, false)
	}
	return reader
}

// newDecoder returns a decoder of objects, which share values if sharing is true. It calls report for fields
// that T lacks, if the options ask for that.
func (r *Resource[T]) newDecoder(report func(error), sharing bool) *decode.Decoder[T] {
	if sharing && r.options.unknown == nil {
		return r.codec.NewDecoder()
	}
	o := r.options.decoding
	o.WithoutInterning = o.WithoutInterning || !sharing
	if r.options.unknown != nil {
		o.ReportUnknown = report
	}
	codec, _ := decode.ForType[T](r.codec.Type(), o) // the first codec of the type was made without an error
	return codec.NewDecoder()
}

// list reads a page of objects.
func (r *Resource[T]) list(ctx context.Context, opts metav1.ListOptions, w stream.Wants[T]) (wire.ListMeta, error) {
	a, err := r.open(ctx, &opts)
	if err != nil {
		return wire.ListMeta{}, err
	}
	defer a.Close()
	meta, err := r.reader().List(a, w)
	if err == nil && meta.ResourceVersion == "" && meta.Kind == "" {
		err = a.Fail(nil, errNoList)
	}
	return meta, err
}

// errNoList means that something else than the server answered: a list without a version has a kind.
var errNoList = fmt.Errorf("%w: an object without a kind and a resource version is no list", ErrMalformed)

// watch opens a watch.
func (r *Resource[T]) watch(ctx context.Context, opts metav1.ListOptions, w stream.Wants[T]) (*stream.Watch[T], error) {
	opts.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	a, err := r.openWatch(ctx, cancel, &opts)
	if err != nil {
		cancel()
		return nil, err
	}
	watchList := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	return r.reader().Watch(ctx, cancel, a, watchList, w), nil
}

// openWatch sends the request for a watch, and ends it if no answer begins within the timeout of the
// config.
func (r *Resource[T]) openWatch(ctx context.Context, cancel context.CancelFunc, opts *metav1.ListOptions) (*stream.Response, error) {
	if r.timeout == 0 {
		return r.open(ctx, opts)
	}
	unanswered := time.AfterFunc(r.timeout, cancel)
	a, err := r.open(ctx, opts)
	if unanswered.Stop() {
		return a, err
	}
	if err == nil { // the answer came as the time ran out, and its body can no longer be read
		a.Close()
		err = context.DeadlineExceeded
	}
	return nil, fmt.Errorf("no answer within %v, the Timeout of the config: %w", r.timeout, err)
}

// responseKey is the context key of a *stream.Response that gets content type and status.
type responseKey struct{}

// guarded returns a transport that stores content type and status in the response of responseKey,
// because a rest.Request returns only the stream of the body. The transport also enforces
// [answer.RedirectError] and [restguard.RefusalLimit].
func guarded(to http.RoundTripper) http.RoundTripper { return noting{restguard.Transport(to)} }

type noting struct{ http.RoundTripper }

// WrappedRoundTripper returns the inner transport, which client-go needs.
func (n noting) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(r)
	if a, ok := r.Context().Value(responseKey{}).(*stream.Response); ok && err == nil {
		a.ContentType, a.Code = response.Header.Get("Content-Type"), response.StatusCode
	}
	return response, err
}
