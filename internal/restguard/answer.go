package restguard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
)

// AnswerLimit is how many bytes of an answer are read that is no object, such as that of discovery. Of a
// cluster with thousands of kinds it has a few MiB.
const AnswerLimit = 16 << 20

// ErrTooLarge means that an answer has more than [AnswerLimit] bytes.
var ErrTooLarge = fmt.Errorf("answer over the size limit of %d bytes: something else than an API server may have answered", AnswerLimit)

// ReadJSON sends a request once, and decodes its answer. client-go's Do would read an answer of any length,
// and sleep for any Retry-After within the request.
func ReadJSON(ctx context.Context, request *rest.Request, into any) error {
	body, err := request.MaxRetries(0).Stream(ctx)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(Bounded(body))
	if err = errors.Join(err, body.Close()); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Bounded returns a body that fails with [ErrTooLarge] after [AnswerLimit] bytes.
func Bounded(body io.ReadCloser) io.ReadCloser { return &bounded{body, AnswerLimit} }

type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(into []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left+1)])
	if b.left -= n; b.left < 0 {
		return n - 1, ErrTooLarge
	}
	return n, err
}
