package stream

import (
	"bytes"
	gojson "encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/kubereflector/kubereflector/internal/wire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Response is a response whose body is being read.
type Response struct {
	Request     string // the method and the URL
	ContentType string // empty if it is not known
	Code        int    // the HTTP status; 0 if it is not known
	Body        io.ReadCloser
}

// Expect returns an error unless the content type is one that the package reads, or is unknown. It
// then closes the body.
func (a *Response) Expect() error {
	if a.ContentType == "" {
		return nil
	}
	if _, ok := a.format(); ok {
		return nil
	}
	defer a.Close()
	head := make([]byte, headSize)
	n, _ := a.Body.Read(head)
	return a.Fail(head[:n], errNotObjects)
}

// Refused wraps the error of a request without a response, or with a status error.
func (a *Response) Refused(err error) error {
	failure := &ResponseError{Request: a.Request, ContentType: a.ContentType, Err: Bound(err)}
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

// format returns the format of the content type.
func (a *Response) format() (wire.Format, bool) {
	switch media, _, err := mime.ParseMediaType(a.ContentType); {
	case err == nil && media == runtime.ContentTypeJSON:
		return wire.JSON, true
	case err == nil && media == runtime.ContentTypeProtobuf:
		return wire.Protobuf, true
	}
	return wire.JSON, false
}

// open returns the format, and the whole body. If the caller supplied the REST client, the content
// type may be unknown, and the first byte determines the format. A protobuf list begins with "k8s".
// A protobuf event begins with the high byte of its length, which is small.
func (a *Response) open() (wire.Format, io.Reader, error) {
	if a.ContentType != "" {
		format, _ := a.format()
		return format, a.Body, nil
	}
	first := make([]byte, 1, headSize)
	if _, err := io.ReadFull(a.Body, first); err != nil {
		return wire.JSON, io.MultiReader(bytes.NewReader(nil), failing{err}), nil
	}
	whole := io.MultiReader(bytes.NewReader(first), a.Body)
	switch c := first[0]; {
	case c == '{' || c == ' ' || c == '\t' || c == '\r' || c == '\n':
		return wire.JSON, whole, nil
	case c == 'k' || c < '\t':
		return wire.Protobuf, whole, nil
	}
	n, _ := a.Body.Read(first[1:headSize])
	return wire.JSON, nil, a.Fail(first[:1+n], errNotObjects)
}

// failing is a reader that returns only an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// ReadAll returns the whole body, of at most limit bytes; 0 is the default.
func (a *Response) ReadAll(limit int) ([]byte, error) {
	if limit == 0 {
		limit = wire.DefaultLimit
	}
	limit = min(limit, math.MaxInt-1)
	data, err := io.ReadAll(io.LimitReader(a.Body, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = wire.ErrTooLarge
	}
	if err != nil {
		return nil, a.Fail(data[:min(len(data), headSize)], err)
	}
	return data, nil
}

// Fail wraps the error that ended the reading of the body.
func (a *Response) Fail(head []byte, err error) error {
	failure := &ResponseError{Request: a.Request, ContentType: a.ContentType, Head: bytes.Clone(head), Err: err}
	var cut *wire.Error
	if errors.As(err, &cut) {
		failure.Head, failure.Err = bytes.Clone(cut.Head), fmt.Errorf("%w at byte %d", cut.Err, cut.Offset)
	}
	return failure
}

// Close closes the body.
func (a *Response) Close() { _ = a.Body.Close() }

const (
	// MaxText is the largest size of an error's text in bytes. MaxMessage is the largest kept part
	// of a server's message: a server has sent 15 MB.
	MaxText    = 1 << 10
	MaxMessage = 512
	MaxName    = 253 // the longest name of an object, by the rules of DNS
	// MaxVersion is the largest size of a resource version in bytes. Versions of etcd have at most
	// 19.
	MaxVersion = 256
	maxCauses  = 8
)

// Cut shortens a text to at most n bytes. A shortened text does not keep the memory of the
// original.
func Cut(text string, n int) string {
	const more = "…"
	if len(text) <= n {
		return text
	}
	n -= len(more)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + more
}

// Wrap returns an error with the text "what: err" of at most 1 KiB, which wraps err.
func Wrap(what string, err error) error { return &wrapped{what, err} }

type wrapped struct {
	what string
	err  error
}

func (e *wrapped) Error() string {
	return Cut(Cut(e.what, MaxText-MaxMessage)+": "+e.err.Error(), MaxText)
}

func (e *wrapped) Unwrap() error { return e.err }

// CheckVersion rejects a resource version that is too long. URLs and logs would contain it.
func CheckVersion(version string) error {
	if len(version) > MaxVersion {
		return fmt.Errorf("%w: a resource version has %d bytes, want at most %d", wire.ErrMalformed, len(version), MaxVersion)
	}
	return nil
}

// Bound shortens the texts in a server's status error.
func Bound(err error) error {
	refusal, ok := err.(*apierrors.StatusError)
	if !ok {
		return err
	}
	s := refusal.ErrStatus
	if s.Size() <= MaxMessage {
		return err
	}
	s.Message, s.Status, s.Reason = Cut(s.Message, MaxMessage), Cut(s.Status, MaxName), metav1.StatusReason(Cut(string(s.Reason), MaxName))
	s.Kind, s.APIVersion = Cut(s.Kind, MaxName), Cut(s.APIVersion, MaxName)
	s.ListMeta = metav1.ListMeta{}
	if s.Details != nil {
		d := *s.Details
		d.Name, d.Group, d.Kind = Cut(d.Name, MaxName), Cut(d.Group, MaxName), Cut(d.Kind, MaxName)
		if len(d.UID) > MaxName {
			d.UID = ""
		}
		causes := d.Causes[:min(len(d.Causes), maxCauses)]
		d.Causes = nil
		for _, c := range causes {
			d.Causes = append(d.Causes, metav1.StatusCause{
				Type: metav1.CauseType(Cut(string(c.Type), MaxName)), Message: Cut(c.Message, MaxMessage), Field: Cut(c.Field, MaxName),
			})
		}
		s.Details = &d
	}
	return &apierrors.StatusError{ErrStatus: s}
}

var (
	// ErrTable means that the server sent a Table, a format for display, instead of objects.
	ErrTable = errors.New("server sent a Table instead of objects: the client must not accept as=Table")

	// ErrContentType means that a response has a content type that the request does not accept. A
	// proxy may have answered instead of the API server.
	ErrContentType = errors.New("content type that was not asked for")
)

// errNotObjects is the error for a response such as a proxy's page.
var errNotObjects = fmt.Errorf("%w: want JSON or protobuf; a proxy or a login page may have answered instead of the API server", ErrContentType)

// TypeError means that a watch event carried something other than an object of the reflector's
// type.
type TypeError struct {
	// Want and Got are Go types, such as "*v1.Pod".
	Want, Got string
}

// NewTypeError returns the error for an object that is not a T.
func NewTypeError[T any](got runtime.Object) *TypeError {
	e := &TypeError{Want: reflect.TypeFor[T]().String(), Got: "nil"}
	if got != nil {
		e.Got = reflect.TypeOf(got).String()
		if IsNil(got) {
			e.Got = "nil " + e.Got
		}
	}
	return e
}

// Error names both types.
func (e *TypeError) Error() string {
	return fmt.Sprintf("watch event carries a %s, want a %s", e.Got, e.Want)
}

// EventTypeError means that a watch event has a type that this version of the library does not
// know.
type EventTypeError struct{ Type string }

// Error names the type.
func (e *EventTypeError) Error() string {
	return fmt.Sprintf("unknown type %q of a watch event", Cut(e.Type, 64))
}

// DecodeError means that an object from the server does not fit T.
type DecodeError struct {
	// Resource is the resource, such as "foos.example.com/v1".
	Resource string
	// Namespace and Name identify the object, as far as the decoder can read them.
	Namespace, Name string
	// Type is the Go type of T, such as "*main.Foo".
	Type string
	// Field is the place in the object, as a JSON pointer such as "/spec/size". It is empty if the
	// place is unknown.
	Field string
	// Err is the cause. It is a [store.ErrPanic] with the stack if a method of T panicked.
	Err error
}

// Error names the resource, the object, the type and the cause. It quotes no value of the object.
func (e *DecodeError) Error() string {
	return "decode " + e.Resource + " " + Cut(e.Namespace+"/"+e.Name, MaxName) + " into " + e.Type + ": " + Cut(withoutValues(e.Err), MaxMessage)
}

// withoutValues returns the text of an error without values of the object. The errors of the JSON
// libraries quote numbers and short strings, and the error of a type's own method may quote more.
func withoutValues(err error) string {
	if old, ok := errors.AsType[*gojson.UnmarshalTypeError](err); ok {
		text := *old
		text.Value, _, _ = strings.Cut(old.Value, " ") // such as "number 7"
		return text.Error()
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err.Error()
	}
	text := *semantic
	text.JSONValue = nil
	switch semantic.Err {
	case json.ErrUnknownName, strconv.ErrRange, strconv.ErrSyntax:
		// These errors are constant.
	default:
		text.Err = nil
	}
	return text.Error()
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// ResponseError means that a request of a client failed, in one of four ways:
//
//   - The response is unreadable: [wire.ErrMalformed], [wire.ErrTruncated], [wire.ErrTooLarge] or
//     [ErrContentType].
//   - The response has no object of the resource: [ErrTable], [*TypeError], [*EventTypeError], or the error
//     of a check of the [Reader].
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
	text := Cut(e.Request, mostRequest) + ": " + Cut(e.cause(), MaxMessage)
	var of []string
	if e.Code != 0 {
		of = append(of, fmt.Sprintf("status %d %s", e.Code, http.StatusText(e.Code)))
	}
	if e.ContentType != "" {
		of = append(of, fmt.Sprintf("content type %q", Cut(e.ContentType, 64)))
	}
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	return Cut(text, MaxText)
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
