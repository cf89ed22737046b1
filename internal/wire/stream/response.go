package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/url"

	"github.com/kubereflector/kubereflector/internal/wire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
