package reflectortest

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A frame is a piece of a response's body that faults act on: an event of a watch, an item of a
// list, or the whole body of another answer.
type frame struct {
	// number counts the events or items from 1. It is 0 for the head of the body, and -1 for an
	// ERROR event and for the bytes after the last item.
	number int
	bytes  []byte
	prefix int // bytes of the frame's length prefix
	// closing marks the bookmark that ends the initial events.
	closing bool
	// status makes an ERROR event; nil outside a watch.
	status func(metav1.Status) []byte
}

// Errors that end a response without an answer.
var (
	errRefuse   = errors.New("reflectortest: fault: connection refused")
	errAbort    = errors.New("reflectortest: fault: connection reset")
	errTruncate = errors.New("reflectortest: fault: body cut off")
	errClosed   = errors.New("reflectortest: the server is closed")
	// errPageNotFound is for a path outside of every API: plain text, as in the real server.
	errPageNotFound = errors.New("404 page not found")
	// errUnavailable is the answer of the real aggregator, which is plain text, too.
	errUnavailable = errors.New("service unavailable")
)

// response writes frames, through the faults that act on the request.
type response struct {
	w        http.ResponseWriter
	ctx      context.Context
	closing  <-chan struct{}
	faults   []*Fault
	answered func(code int)
	started  bool
	written  int // bytes of the body
}

// start sends the head of the response.
func (o *response) start(code int, contentType string) {
	o.started = true
	o.w.Header().Set("Content-Type", contentType)
	if o.w.Header().Get("Cache-Control") == "" {
		o.w.Header().Set("Cache-Control", "no-cache, private")
	}
	o.w.WriteHeader(code)
	o.answered(code)
}

// document writes a whole answer.
func (o *response) document(code int, contentType string, doc []byte) error {
	o.start(code, contentType)
	return o.frame(&frame{bytes: doc})
}

// frame writes one frame as modified by the faults.
func (o *response) frame(f *frame) error {
	var ending error
	for _, fault := range o.faults {
		if fault.edit == nil {
			continue
		}
		if err := fault.edit(o, f); err != nil {
			ending = err
			break
		}
	}
	if err := o.write(f.bytes); err != nil {
		return err
	}
	return ending
}

// write sends bytes of the body, up to the limit of a fault.
func (o *response) write(b []byte) error {
	var ending error
	if limit, ok := o.limit(); ok && o.written+len(b) > limit {
		b, ending = b[:limit-o.written], errAbort
	}
	n, err := o.w.Write(b)
	o.written += n
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) { // an answer with code 204 or 304 has no body
		return err
	}
	return ending
}

// limit is the number of bytes after which a fault resets the connection.
func (o *response) limit() (int, bool) {
	limit, ok := 0, false
	for _, f := range o.faults {
		if f.hasLimit && (!ok || f.limit < limit) {
			limit, ok = f.limit, true
		}
	}
	return max(limit, o.written), ok
}

func (o *response) flush() {
	if f, ok := o.w.(http.Flusher); ok {
		f.Flush()
	}
}

// stall waits for the release, the end of the request or the end of the server.
func (o *response) stall(release <-chan struct{}) error {
	o.flushStarted()
	select {
	case <-release:
		return nil
	case <-o.ctx.Done():
		return o.ctx.Err()
	case <-o.closing:
		return errClosed
	}
}

// flushStarted flushes the written bytes before the connection pauses or ends.
func (o *response) flushStarted() {
	if o.started {
		o.flush()
	}
}

// end handles an error that needs no answer, and reports whether it was one.
func (o *response) end(err error) bool {
	switch {
	case errors.Is(err, errRefuse):
		o.abort(errRefused)
	case errors.Is(err, errAbort):
		o.flushStarted()
		o.abort(errReset)
	case errors.Is(err, errTruncate):
		o.flushStarted()
	case errors.Is(err, errPageNotFound):
		_ = o.document(http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found\n"))
	case errors.Is(err, errUnavailable):
		_ = o.document(http.StatusServiceUnavailable, "text/plain; charset=utf-8", []byte("service unavailable\n"))
	case errors.Is(err, errClosed), o.ctx.Err() != nil:
		o.abort(nil)
	case o.started:
		o.abort(nil) // the status is sent: a further answer is impossible
	default:
		return false
	}
	return true
}

// abort ends the connection without finishing the response. On a port the
// client finds it closed; in memory it gets the error of a network.
func (o *response) abort(err error) {
	if c, ok := o.ctx.Value(connKey{}).(*memoryConn); ok && err != nil {
		c.fail(err)
	}
	panic(http.ErrAbortHandler)
}
