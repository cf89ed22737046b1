package reflector

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
	mediaCBOR     = runtime.ContentTypeCBOR
	mediaCBORs    = runtime.ContentTypeCBORSequence // for watches
)

var (
	// ErrMalformed means that an answer is not in the format that it should be in.
	ErrMalformed = wire.ErrMalformed
	// ErrTruncated means that an answer ended within an object or a list.
	ErrTruncated = wire.ErrTruncated
	// ErrTooLarge means that an object has more bytes than [WithFrameLimit] allows.
	ErrTooLarge = wire.ErrTooLarge
	// ErrContentType means that an answer is not in a format that was asked for:
	// something between here and the API server may have answered in its place.
	ErrContentType = errors.New("content type that was not asked for")
)

// RedirectError means that a server redirected a request to another host or scheme, which the
// client refuses: its credentials would go there, too.
type RedirectError = restguard.RedirectError

// ResponseError means that a request of a [Resource] failed. The answer cannot be read: it is an
// [ErrMalformed], an [ErrTruncated], an [ErrTooLarge] or an [ErrContentType]; or it has no object
// of the resource, but an [ErrTable], a [*MismatchError], a [*TypeError] or an [*EventTypeError];
// or the connection broke; or the server refused the request, with a *StatusError of
// k8s.io/apimachinery/pkg/api/errors.
type ResponseError struct {
	// Request is what was asked, such as "GET https://host/api/v1/pods?watch=true".
	Request string
	// Code is the status code of a refusal, and 0 for all else.
	Code int
	// ContentType is what the answer is said to be; empty if that is not known.
	ContentType string
	// Head is how the answer begins, or the object of a watch: at most 512 bytes. It may be part of
	// a Secret; no text has it.
	Head []byte
	Err  error
}

// Error names the request, the cause, and the status code and content type of the answer. It does
// not quote objects, and has at most 1 KiB.
func (e *ResponseError) Error() string {
	const mostRequest = 320
	text := cut(e.Request, mostRequest) + ": " + cut(e.cause(), maxMessage)
	var of []string
	if e.Code != 0 {
		of = append(of, fmt.Sprintf("status %d %s", e.Code, http.StatusText(e.Code)))
	}
	if e.ContentType != "" {
		of = append(of, fmt.Sprintf("content type %q", cut(e.ContentType, 64)))
	}
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	return cut(text, maxText)
}

func (e *ResponseError) cause() string {
	text := e.Err.Error()
	if e.Code != 0 && isUnexpected(e.Err) {
		return "the answer is no Status of an API server, so a proxy or load balancer may have refused the request: " + text
	}
	// net/http quotes what it got instead of HTTP.
	if before, after, ok := strings.Cut(text, "malformed HTTP "); ok {
		what, _, _ := strings.Cut(after, "\"")
		return before + "malformed HTTP " + what + "that is not shown: the port may speak TLS, HTTP/2 or something else"
	}
	return text
}

// Unwrap returns Err.
func (e *ResponseError) Unwrap() error { return e.Err }

var (
	metaVersion = schema.GroupVersion{Version: "v1"}
	metaScheme  = newMetaScheme()
	// parameters puts the options of requests into URLs.
	parameters = runtime.NewParameterCodec(metaScheme)
	// statuses reads the refusals of a server.
	statuses = serializer.NewCodecFactory(metaScheme).WithoutConversion()
)

func newMetaScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metaVersion)
	return s
}

// plural returns the name of the resource, as it is in URLs.
func (r *Resource[T]) plural(ctx context.Context) (string, error) {
	if r.finder == nil {
		return r.resource, nil
	}
	return r.finder.find(ctx)
}

// missed notes that an answer says that there is no such resource.
func (r *Resource[T]) missed(resource string, err error) {
	if !isResourceMissing(err) {
		return
	}
	r.expected.learned.Store(nil)
	if r.finder != nil {
		r.finder.forget(resource)
	}
}

// isResourceMissing reports whether an error says that the server does not know a resource: of
// an object that it does not have, it says the name, and says so in its own words.
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

// accepts is the content types of lists and watches.
func (r *Resource[T]) accepts() string {
	switch {
	case r.onlyJSON.Load():
	case r.options.cbor:
		return mediaCBOR + "," + mediaJSON
	case r.protobuf:
		return mediaProtobuf + "," + mediaJSON
	}
	return mediaJSON
}

// open sends a request for a list or a watch. A server that refuses what it is asked for is asked
// for JSON from then on, which all of them speak.
func (r *Resource[T]) open(ctx context.Context, opts *metav1.ListOptions) (*answer, error) {
	resource, err := r.plural(ctx)
	if err != nil {
		return nil, err
	}
	for {
		accepts := r.accepts()
		request := r.request(resource, opts, accepts)
		if opts.Watch {
			// As in client-go, watches are not limited in number: they wait most of the time.
			request.Throttle(nil)
		}
		// The reflector backs off by itself, for as long as Retry-After says, and State shows it.
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

// answer is an answer that is being read.
type answer struct {
	request     string
	contentType string // as the server says; empty if it is not known
	body        io.ReadCloser
}

// ask sends a request, and sees to it that the answer may be one.
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

// errNotObjects is what a proxy's page is.
var errNotObjects = fmt.Errorf("%w: want JSON, protobuf or CBOR; a proxy or a login page may have answered instead of the API server", ErrContentType)

// refused wraps the failure of a request that got no answer, or a refusal.
func (a *answer) refused(err error) error {
	failure := &ResponseError{Request: a.request, ContentType: a.contentType, Err: bounded(err)}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		failure.Code = int(status.Status().Code)
	}
	if of, ok := err.(*url.Error); ok {
		failure.Err = of.Err // it has the URL once more
	}
	return failure
}

// headSize is how much of an answer is shown in an error.
const headSize = 512

// named returns the format that the content type names.
func (a *answer) named() (wire.Format, bool) {
	switch media, _, err := mime.ParseMediaType(a.contentType); {
	case err == nil && media == mediaJSON:
		return wire.JSON, true
	case err == nil && media == mediaProtobuf:
		return wire.Protobuf, true
	case err == nil && (media == mediaCBOR || media == mediaCBORs):
		return wire.CBOR, true
	}
	return wire.JSON, false
}

// open returns the format, and the body from its beginning. Where somebody else made the
// client, the content type is not known, and the first byte tells: a protobuf list begins
// with "k8s", and a protobuf event with the high byte of its length, which is no more than
// a few.
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
	case c == 0xd9:
		return wire.CBOR, whole, nil
	}
	n, _ := a.body.Read(first[1:headSize])
	return wire.JSON, nil, a.fail(first[:1+n], errNotObjects)
}

// failing is a reader that has come to its end.
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

// fail wraps what ended the reading of the body.
func (a *answer) fail(head []byte, err error) error {
	failure := &ResponseError{Request: a.request, ContentType: a.contentType, Head: bytes.Clone(head), Err: err}
	var cut *wire.Error
	if errors.As(err, &cut) {
		failure.Head, failure.Err = bytes.Clone(cut.Head), fmt.Errorf("%w at byte %d", cut.Err, cut.Offset)
	}
	return failure
}

func (a *answer) close() { _ = a.body.Close() }

// contentTypeKey is the context key of where the content type of an answer is noted.
type contentTypeKey struct{}

// guarded returns a transport that notes the content type of answers for callers that ask, since a
// rest.Request gives its body as a stream and nothing else of the answer. It refuses what
// [RedirectError] and [restguard.RefusalLimit] say.
func guarded(to http.RoundTripper) http.RoundTripper { return noting{restguard.Transport(to)} }

type noting struct{ http.RoundTripper }

// WrappedRoundTripper is for client-go, which looks for the transport inside.
func (n noting) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(r)
	if note, ok := r.Context().Value(contentTypeKey{}).(*string); ok && err == nil {
		*note = response.Header.Get("Content-Type")
	}
	return response, err
}
