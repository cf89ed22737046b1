package stream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/url"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/answer"
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
	failure := &answer.ResponseError{Request: a.Request, ContentType: a.ContentType, Err: Bound(err)}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		failure.Code = int(status.Status().Code)
	}
	if of, ok := err.(*url.Error); ok {
		failure.Err = of.Err // its text repeats the URL
	}
	return failure
}

// headSize is the size of an answer.ResponseError's Head in bytes.
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

// open returns the format and the body. Only a test double has no content type. The first byte then tells: a
// protobuf list begins with "k8s", and a protobuf event with the high byte of its length, which is small.
func (a *Response) open() (wire.Format, io.Reader) {
	if a.ContentType != "" {
		format, _ := a.format()
		return format, a.Body
	}
	body := bufio.NewReaderSize(a.Body, headSize)
	if first, _ := body.Peek(1); len(first) > 0 && (first[0] == 'k' || first[0] < '\t') {
		return wire.Protobuf, body
	}
	return wire.JSON, body
}

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
	return &answer.ResponseError{Request: a.Request, ContentType: a.ContentType, Head: bytes.Clone(head), Err: err}
}

// Close closes the body.
func (a *Response) Close() { _ = a.Body.Close() }

const (
	// MaxVersion is the largest size of a resource version in bytes. Versions of etcd have at most
	// 19.
	MaxVersion = 256
	maxCauses  = 8 // of a status error
)

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
	if s.Size() <= cut.MaxMessage {
		return err
	}
	s.Message, s.Status, s.Reason = cut.Text(s.Message, cut.MaxMessage), cut.Text(s.Status, cut.MaxName), metav1.StatusReason(cut.Text(string(s.Reason), cut.MaxName))
	s.Kind, s.APIVersion = cut.Text(s.Kind, cut.MaxName), cut.Text(s.APIVersion, cut.MaxName)
	s.ListMeta = metav1.ListMeta{}
	if s.Details != nil {
		d := *s.Details
		d.Name, d.Group, d.Kind = cut.Text(d.Name, cut.MaxName), cut.Text(d.Group, cut.MaxName), cut.Text(d.Kind, cut.MaxName)
		if len(d.UID) > cut.MaxName {
			d.UID = ""
		}
		causes := d.Causes[:min(len(d.Causes), maxCauses)]
		d.Causes = nil
		for _, c := range causes {
			d.Causes = append(d.Causes, metav1.StatusCause{
				Type: metav1.CauseType(cut.Text(string(c.Type), cut.MaxName)), Message: cut.Text(c.Message, cut.MaxMessage), Field: cut.Text(c.Field, cut.MaxName),
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

// NewTypeError returns the error for an object that is not a T.
func NewTypeError[T any](got runtime.Object) *answer.TypeError {
	e := &answer.TypeError{Want: reflect.TypeFor[T]().String(), Got: "nil"}
	if got != nil {
		e.Got = reflect.TypeOf(got).String()
		if IsNil(got) {
			e.Got = "nil " + e.Got
		}
	}
	return e
}
