package wire

import "io"

// cutter finds frames in bytes that begin after the last cut. cut returns the number of consumed
// bytes, and whether they held a frame. With neither, it needs more bytes.
type cutter interface {
	cut(b []byte) (frame Frame, n int, ok bool, err error)
	// end returns an error if a body must not end before rest, which no cut could consume.
	end(rest []byte) error
}

// body reads a response body and cuts it.
type body struct {
	r      io.Reader
	limit  int
	cutter cutter

	batch      *Batch // holds the bytes that were read
	start, end int    // batch.buf[start:end] is not cut yet
	offset     int64  // of start in the body
	passed     int    // bytes outside of frames since the last frame
	head       []byte
	err        error // returned when everything is cut
}

func newBody(r io.Reader, limit int, c cutter) body {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return body{r: r, limit: limit, cutter: c, batch: newBatch(), head: make([]byte, 0, headSize)}
}

// next returns the frames that have arrived. It waits only if there are none.
func (b *body) next() (*Batch, error) {
	for {
		b.cutAll()
		if len(b.batch.Frames) > 0 {
			return b.handOver(), nil
		}
		if b.end-b.start > b.limit || b.passed > b.limit {
			b.fail(tooLarge(b.limit))
		}
		if b.err != nil {
			return nil, b.finish()
		}
		b.fill()
	}
}

// cutAll cuts until it needs more bytes.
func (b *body) cutAll() {
	for b.start < b.end {
		frame, n, ok, err := b.cutter.cut(b.batch.buf[b.start:b.end])
		if err == nil && ok && len(frame.Object) > b.limit {
			err = tooLarge(b.limit)
		}
		if err != nil {
			b.fail(err)
			return
		}
		b.start += n
		b.offset += int64(n)
		b.passed += n
		if ok {
			b.passed = 0
			b.batch.Frames = append(b.batch.Frames, frame)
		} else if n == 0 {
			return
		}
	}
}

// handOver returns the batch, and moves the uncut bytes to a new one.
func (b *body) handOver() *Batch {
	full, rest := b.batch, b.batch.buf[b.start:b.end]
	b.batch = newBatch()
	if len(b.batch.buf) < len(rest) {
		b.batch.buf = make([]byte, len(rest)+chunkSize)
	}
	b.start, b.end = 0, copy(b.batch.buf, rest)
	return full
}

// fill reads once.
func (b *body) fill() {
	buf := b.batch.buf
	if want := b.end - b.start + chunkSize/2; want > len(buf) {
		buf = make([]byte, 2*want)
	}
	if b.start > 0 || len(buf) > len(b.batch.buf) {
		b.end = copy(buf, b.batch.buf[b.start:b.end])
		b.start, b.batch.buf = 0, buf
	}
	const patience = 100
	for range patience {
		n, err := b.r.Read(buf[b.end:])
		b.head = append(b.head, buf[b.end:b.end+min(n, cap(b.head)-len(b.head))]...)
		b.end += n
		b.err = err
		if n > 0 || err != nil {
			return
		}
	}
	b.err = io.ErrNoProgress
}

// finish returns how the body ended. It does not wrap errors of the reader.
func (b *body) finish() error {
	if b.err == io.EOF {
		if err := b.cutter.end(b.batch.buf[b.start:b.end]); err != nil {
			b.fail(err)
		}
	}
	return b.err
}

// fail gives up the rest of the body.
func (b *body) fail(err error) {
	b.err = &Error{Offset: b.offset, Head: b.head, Err: err}
	b.end = b.start
}
