package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecordedError is a failure of a recording. errors.Is and errors.As find in it what a
// reflector, and most others, want to know of the failure itself: the server's status, the
// errors of this package, and how a connection failed.
type RecordedError struct {
	// Text is that of the failure.
	Text string
	// Causes are what it is.
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
	// Causes are names of errors: see causes.
	Causes []string `json:"causes,omitempty"`
	// Want and Got are those of a TypeError, and EventType that of an EventTypeError.
	Want      string `json:"want,omitempty"`
	Got       string `json:"got,omitempty"`
	EventType string `json:"eventType,omitempty"`
	// Namespace and Name are those of the object that an event failed over.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// causes are the errors that a recording has names for.
var causes = []struct {
	name string
	err  error
}{
	{"noAnswer", ErrNoAnswer},
	{"malformed", ErrMalformed},
	{"truncated", ErrTruncated},
	{"tooLarge", ErrTooLarge},
	{"contentType", ErrContentType},
	{"table", ErrTable},
	{"notServed", ErrNotServed},
	{"noKind", ErrNoKind},
	{"clusterScoped", ErrClusterScoped},
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

// newFailureFrame returns what is recorded of an error. What quotes the server's answer quotes
// nothing if that may be secret.
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
	if wrong, ok := errors.AsType[*TypeError](err); ok {
		f.Want, f.Got = wrong.Want, wrong.Got
	}
	if unknown, ok := errors.AsType[*EventTypeError](err); ok {
		f.EventType = unknown.Type
	}
	return f
}

// unquoted returns the text of an error without what it quotes of an answer.
func unquoted(err error) string {
	if answer, ok := errors.AsType[*ResponseError](err); ok && answer.Code == 0 {
		return (&ResponseError{Request: answer.Request, ContentType: answer.ContentType, Err: errUnquoted}).Error()
	}
	if object, ok := errors.AsType[*DecodeError](err); ok {
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
		e.Causes = append(e.Causes, &TypeError{Want: f.Want, Got: f.Got})
	}
	if f.EventType != "" {
		e.Causes = append(e.Causes, &EventTypeError{Type: f.EventType})
	}
	return e
}
