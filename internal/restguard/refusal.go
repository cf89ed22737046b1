package restguard

import (
	"context"
	"io"
)

// RefusalLimit is how many bytes of a refusal are read: client-go reads the whole body before it
// looks at it. Of a Status that is cut, only the code is known.
const RefusalLimit = 1 << 20

// refusal is a body that ends at the limit, and with the context of its request.
type refusal struct {
	ctx  context.Context
	body io.ReadCloser
	left int
	stop func() bool
}

func newRefusal(ctx context.Context, body io.ReadCloser) *refusal {
	// Not every transport ends a Read with the context.
	return &refusal{ctx: ctx, body: body, left: RefusalLimit, stop: context.AfterFunc(ctx, func() { _ = body.Close() })}
}

func (r *refusal) Read(into []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.body.Read(into[:min(len(into), r.left)])
	r.left -= n
	return n, err
}

func (r *refusal) Close() error {
	r.stop()
	return r.body.Close()
}
