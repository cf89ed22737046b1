package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
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
	ErrContentType = errors.New("content type that was not asked for")
)

// RedirectError means that a server redirected a request to another host or scheme. The client does
// not follow the redirect, because it would send its credentials there.
type RedirectError = restguard.RedirectError

// ResponseError means that a request of a [Resource] failed, in one of four ways:
//
//   - The response is unreadable: [ErrMalformed], [ErrTruncated], [ErrTooLarge] or
//     [ErrContentType].
//   - The response has no object of the resource: [reflector.ErrTable], [*MismatchError], [*reflector.TypeError] or
//     [*reflector.EventTypeError].
//   - The connection broke.
//   - The server rejected the request: *StatusError of k8s.io/apimachinery/pkg/api/errors.
type ResponseError struct {
	// Request is the request, such as "GET https://host/api/v1/pods?watch=true".
	Request string
	// Code is the status code if the server rejected the request, and 0 otherwise.
	Code int
	// ContentType is the Content-Type of the response; empty if it is not known.
	ContentType string
	// Head is the beginning of the response, or of a watch event's object: at most 512 bytes. It
	// may contain a part of a Secret, so error texts do not include it.
	Head []byte
	Err  error
}

// Error names the request, the cause, and the response's status code and content type. It does not
// quote objects, and has at most 1 KiB.
func (e *ResponseError) Error() string {
	const mostRequest = 320
	text := source.Cut(e.Request, mostRequest) + ": " + source.Cut(e.cause(), source.MaxMessage)
	var of []string
	if e.Code != 0 {
		of = append(of, fmt.Sprintf("status %d %s", e.Code, http.StatusText(e.Code)))
	}
	if e.ContentType != "" {
		of = append(of, fmt.Sprintf("content type %q", source.Cut(e.ContentType, 64)))
	}
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	return source.Cut(text, source.MaxText)
}

func (e *ResponseError) cause() string {
	text := e.Err.Error()
	if e.Code != 0 && isUnexpected(e.Err) {
		return "the answer is no Status of an API server, so a proxy or load balancer may have refused the request: " + text
	}
	// net/http quotes the bytes that it received instead of HTTP.
	if before, after, ok := strings.Cut(text, "malformed HTTP "); ok {
		what, _, _ := strings.Cut(after, "\"")
		return before + "malformed HTTP " + what + "that is not shown: the port may speak TLS, HTTP/2 or something else"
	}
	return text
}

// isUnexpected reports whether client-go made the status error from the HTTP status code. Such an
// error does not come from the API server.
func isUnexpected(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Unwrap returns Err.
func (e *ResponseError) Unwrap() error { return e.Err }

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

// plural returns the resource's name in URLs.
func (r *Resource[T]) plural(ctx context.Context) (string, error) {
	if r.finder == nil {
		return r.resource, nil
	}
	return r.finder.find(ctx)
}

// missed discards what the Resource knows about the kind if err says that the server does not know
// the resource.
func (r *Resource[T]) missed(resource string, err error) {
	if !isResourceMissing(err) {
		return
	}
	r.expected.learned.Store(nil)
	if r.finder != nil {
		r.finder.forget(resource)
	}
}

// isResourceMissing reports whether an error says that the server does not know a resource. If only
// the object is missing, the status is the API server's own and names the object.
func isResourceMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// request returns a request for objects.
func (r *Resource[T]) request(resource string, opts runtime.Object, accept string) *rest.Request {
	return r.rest.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(resource).
		SpecificallyVersionedParams(opts, parameters, metaVersion).SetHeader("Accept", accept)
}

// accepts returns the accepted content types of lists and watches.
func (r *Resource[T]) accepts() string {
	if r.protobuf && !r.onlyJSON.Load() {
		return mediaProtobuf + "," + mediaJSON
	}
	return mediaJSON
}

// open sends a request for a list or a watch. If a server rejects the accepted content types, the
// Resource requests JSON from then on, which every server speaks.
func (r *Resource[T]) open(ctx context.Context, opts *metav1.ListOptions) (*answer, error) {
	resource, err := r.plural(ctx)
	if err != nil {
		return nil, err
	}
	for {
		accepts := r.accepts()
		request := r.request(resource, opts, accepts)
		if opts.Watch {
			// As in client-go, the rate limiter does not apply to watches: they wait most of the
			// time.
			request.Throttle(nil)
		}
		// The reflector backs off by itself for the time in Retry-After, and State shows the
		// back-off.
		request.MaxRetries(0)
		a, err := r.ask(ctx, request)
		if apierrors.IsNotAcceptable(err) && accepts != mediaJSON {
			r.onlyJSON.Store(true)
			continue
		}
		r.missed(resource, err)
		return a, err
	}
}

// answer is a response whose body is being read.
type answer struct {
	request     string
	contentType string // the response's Content-Type; empty if it is not known
	body        io.ReadCloser
}

// ask sends a request, and checks the content type of the response.
func (r *Resource[T]) ask(ctx context.Context, request *rest.Request) (*answer, error) {
	a := &answer{request: "GET " + request.URL().Redacted()}
	body, err := request.Stream(context.WithValue(ctx, contentTypeKey{}, &a.contentType))
	if err != nil {
		return nil, a.refused(err)
	}
	a.body = body
	if a.contentType == "" {
		return a, nil
	}
	if _, ok := a.named(); !ok {
		defer a.close()
		head := make([]byte, headSize)
		n, _ := a.body.Read(head)
		return nil, a.fail(head[:n], errNotObjects)
	}
	return a, nil
}

// errNotObjects is the error for a response such as a proxy's page.
var errNotObjects = fmt.Errorf("%w: want JSON or protobuf; a proxy or a login page may have answered instead of the API server", ErrContentType)

// refused wraps the error of a request without a response, or with a status error.
func (a *answer) refused(err error) error {
	failure := &ResponseError{Request: a.request, ContentType: a.contentType, Err: source.Bound(err)}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		failure.Code = int(status.Status().Code)
	}
	if of, ok := err.(*url.Error); ok {
		failure.Err = of.Err // its text repeats the URL
	}
	return failure
}

// headSize is the size of a ResponseError's Head in bytes.
const headSize = 512

// named returns the format of the content type.
func (a *answer) named() (wire.Format, bool) {
	switch media, _, err := mime.ParseMediaType(a.contentType); {
	case err == nil && media == mediaJSON:
		return wire.JSON, true
	case err == nil && media == mediaProtobuf:
		return wire.Protobuf, true
	}
	return wire.JSON, false
}

// open returns the format, and the whole body. If the caller supplied the REST client, the content
// type may be unknown, and the first byte determines the format. A protobuf list begins with "k8s".
// A protobuf event begins with the high byte of its length, which is small.
func (a *answer) open() (wire.Format, io.Reader, error) {
	if a.contentType != "" {
		format, _ := a.named()
		return format, a.body, nil
	}
	first := make([]byte, 1, headSize)
	if _, err := io.ReadFull(a.body, first); err != nil {
		return wire.JSON, io.MultiReader(bytes.NewReader(nil), failing{err}), nil
	}
	whole := io.MultiReader(bytes.NewReader(first), a.body)
	switch c := first[0]; {
	case c == '{' || c == ' ' || c == '\t' || c == '\r' || c == '\n':
		return wire.JSON, whole, nil
	case c == 'k' || c < '\t':
		return wire.Protobuf, whole, nil
	}
	n, _ := a.body.Read(first[1:headSize])
	return wire.JSON, nil, a.fail(first[:1+n], errNotObjects)
}

// failing is a reader that returns only an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// all returns the whole body.
func (a *answer) all(limit int) ([]byte, error) {
	if limit == 0 {
		limit = wire.DefaultLimit
	}
	data, err := io.ReadAll(io.LimitReader(a.body, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, a.fail(data[:min(len(data), headSize)], err)
	}
	return data, nil
}

// fail wraps the error that ended the reading of the body.
func (a *answer) fail(head []byte, err error) error {
	failure := &ResponseError{Request: a.request, ContentType: a.contentType, Head: bytes.Clone(head), Err: err}
	var cut *wire.Error
	if errors.As(err, &cut) {
		failure.Head, failure.Err = bytes.Clone(cut.Head), fmt.Errorf("%w at byte %d", cut.Err, cut.Offset)
	}
	return failure
}

func (a *answer) close() { _ = a.body.Close() }

// contentTypeKey is the context key of the variable that receives the content type of a response.
type contentTypeKey struct{}

// guarded returns a transport that stores the content type of a response in the variable of
// contentTypeKey. A rest.Request returns only the stream of the body. The transport also enforces
// [RedirectError] and [restguard.RefusalLimit].
func guarded(to http.RoundTripper) http.RoundTripper { return noting{restguard.Transport(to)} }

type noting struct{ http.RoundTripper }

// WrappedRoundTripper returns the inner transport, which client-go needs.
func (n noting) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(r)
	if note, ok := r.Context().Value(contentTypeKey{}).(*string); ok && err == nil {
		*note = response.Header.Get("Content-Type")
	}
	return response, err
}
