package answer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/discreet"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TypeError means that a watch event carried something other than an object of the reflector's
// type.
type TypeError struct {
	// Want and Got are Go types, such as "*v1.Pod".
	Want, Got string
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
	return fmt.Sprintf("unknown type %q of a watch event", cut.Text(e.Type, 64))
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
	// Err is the cause. It is a [store.ErrPanic] with the stack if a method of T panicked. Its text may
	// quote values of the object.
	Err error
}

// Error names the resource, the object, the type and the cause. It quotes no value of the object.
func (e *DecodeError) Error() string {
	return "decode " + e.Resource + " " + cut.Text(e.Namespace+"/"+e.Name, cut.MaxName) + " into " + e.Type + ": " + cut.Text(discreet.Text(e.Err), cut.MaxMessage)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// ResponseError means that a request of a [client.Resource] failed, in one of four ways:
//
//   - The response is unreadable: [client.ErrMalformed], [client.ErrTruncated], [client.ErrTooLarge] or
//     [client.ErrContentType].
//   - The response has no object of the resource: [reflector.ErrTable], [*client.MismatchError],
//     [*TypeError] or [*EventTypeError].
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
	text := cut.Text(e.Request, mostRequest) + ": " + cut.Text(e.cause(), cut.MaxMessage)
	var of []string
	if e.Code != 0 {
		of = append(of, fmt.Sprintf("status %d %s", e.Code, http.StatusText(e.Code)))
	}
	if e.ContentType != "" {
		of = append(of, fmt.Sprintf("content type %q", cut.Text(e.ContentType, 64)))
	}
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	return cut.Text(text, cut.MaxText)
}

func (e *ResponseError) cause() string {
	text := discreet.HTTP(e.Err).Error()
	if e.Code != 0 && isUnexpected(e.Err) {
		return "the answer is no Status of an API server, so a proxy or load balancer may have refused the request: " + text
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

// RedirectError means that a server redirected a request to another host or scheme. The client
// does not follow: client-go's transports add the credentials to each request, so the other
// server would get them, and its answer would pass for the API server's (compare CVE-2022-3172).
type RedirectError struct {
	// From and To are scheme and host, such as "https://10.0.0.1:6443".
	From, To string
}

// Error names both servers.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s redirects to another server, %s, and the client does not send credentials there: set the host of the config to the API server itself", e.From, e.To)
}
