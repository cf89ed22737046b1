package wire

import "io"

// cutter finds frames in bytes that begin where the last cut ended. It says how many bytes
// are done with, and whether a frame was among them; with neither it needs more bytes.
type cutter interface {
	cut(b []byte) (frame Frame, n int, ok bool, err error)
	// end says whether a body may end before rest, which no cut could use.
	end(rest []byte) error
}

// body reads the body of an answer and cuts it.
type body struct {
	r      io.Reader
	limit  int
	cutter cutter

	batch      *Batch // holds what was read
	start, end int    // batch.buf[start:end] is not cut yet
	offset     int64  // of start in the body
	passed     int    // bytes since the last frame that belong to none
	head       []byte
	err        error // what comes when everything is cut
}

func newBody(r io.Reader, limit int, c cutter) body {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return body{r: r, limit: limit, cutter: c, batch: newBatch(), head: make([]byte, 0, headSize)}
}

// next returns what has arrived, and waits only if that is nothing.
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

// handOver gives the batch away and keeps what is not cut in a new one.
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

// finish says how the body ended. The reader's own errors stay as they are.
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
