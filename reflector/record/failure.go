package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecordedError is a recorded failure. errors.Is and errors.As find the causes that a reflector and
// most other callers need: the server's status, the errors of this package, and the connection
// error.
type RecordedError struct {
	// Text is the text of the failure.
	Text string
	// Causes are the recorded causes.
	Causes []error
}

// Error returns the text of the failure.
func (e *RecordedError) Error() string { return e.Text }

// Unwrap returns Causes.
func (e *RecordedError) Unwrap() []error { return e.Causes }

// failureFrame is a failure in a recording.
type failureFrame struct {
	Text   string         `json:"text"`
	Status *metav1.Status `json:"status,omitempty"`
	// Causes are names of errors: see the variable causes.
	Causes []string `json:"causes,omitempty"`
	// Want and Got belong to a TypeError, and EventType to an EventTypeError.
	Want      string `json:"want,omitempty"`
	Got       string `json:"got,omitempty"`
	EventType string `json:"eventType,omitempty"`
	// Namespace and Name identify the object whose event failed.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// causes maps errors to their names in recordings.
var causes = []struct {
	name string
	err  error
}{
	{"noAnswer", protocol.NoAnswer},
	{"malformed", wire.ErrMalformed},
	{"truncated", wire.ErrTruncated},
	{"tooLarge", wire.ErrTooLarge},
	{"contentType", client.ErrContentType},
	{"table", stream.ErrTable},
	{"notServed", protocol.ErrNotServed},
	{"noKind", client.ErrNoKind},
	{"clusterScoped", client.ErrClusterScoped},
	{"panic", store.ErrPanic},
	{"connectionRefused", syscall.ECONNREFUSED},
	{"connectionReset", syscall.ECONNRESET},
	{"deadlineExceeded", context.DeadlineExceeded},
	{"canceled", context.Canceled},
	{"end", io.EOF},
	{"unexpectedEnd", io.ErrUnexpectedEOF},
	{"timeout", errTimeout{}},
}

// errTimeout is a net.Error that is a timeout.
type errTimeout struct{}

func (errTimeout) Error() string   { return "timeout" }
func (errTimeout) Timeout() bool   { return true }
func (errTimeout) Temporary() bool { return true }

var _ net.Error = errTimeout{}

// newFailureFrame converts an error to its recorded form. If masked is true, the text contains no
// quotes from the server's response, which may be secret.
func newFailureFrame(err error, masked bool) *failureFrame {
	f := &failureFrame{Text: err.Error()}
	if masked {
		f.Text = unquoted(err)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		f.Status = &s
	}
	for _, cause := range causes {
		if errors.Is(err, cause.err) {
			f.Causes = append(f.Causes, cause.name)
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		f.Causes = append(f.Causes, "timeout")
	}
	if wrong, ok := errors.AsType[*source.TypeError](err); ok {
		f.Want, f.Got = wrong.Want, wrong.Got
	}
	if unknown, ok := errors.AsType[*source.EventTypeError](err); ok {
		f.EventType = unknown.Type
	}
	return f
}

// unquoted returns the text of an error without quotes from a response.
func unquoted(err error) string {
	if answer, ok := errors.AsType[*client.ResponseError](err); ok && answer.Code == 0 {
		return (&client.ResponseError{Request: answer.Request, ContentType: answer.ContentType, Err: errUnquoted}).Error()
	}
	if object, ok := errors.AsType[*client.DecodeError](err); ok {
		short := *object
		short.Err = fmt.Errorf("field %q: %w", object.Field, errUnquoted)
		return short.Error()
	}
	return err.Error()
}

var errUnquoted = errors.New("it cannot be read; what it says was not recorded, since it may be secret")

// err returns the failure as an error.
func (f *failureFrame) err() error {
	e := &RecordedError{Text: f.Text}
	if f.Status != nil {
		e.Causes = append(e.Causes, &apierrors.StatusError{ErrStatus: *f.Status})
	}
	for _, name := range f.Causes {
		for _, cause := range causes {
			if cause.name == name {
				e.Causes = append(e.Causes, cause.err)
			}
		}
	}
	if f.Want != "" || f.Got != "" {
		e.Causes = append(e.Causes, &source.TypeError{Want: f.Want, Got: f.Got})
	}
	if f.EventType != "" {
		e.Causes = append(e.Causes, &source.EventTypeError{Type: f.EventType})
	}
	return e
}
