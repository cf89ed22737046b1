package wire

import (
	"fmt"
	"io"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// body reads a response body and cuts it: [Watch] and [List] are bodies with the cutter of their format.
// Each frame points into the buffer of its batch, which the decoders release, so that the bytes of an
// event are copied only if a read ended within it.
type body struct {
	r      io.Reader
	limit  int
	cutter cutter

	batch      *Batch // holds the bytes that were read; nil while there are none
	start, end int    // batch.buf[start:end] is not cut yet
	// waiting is the buffer of a read when there are no bytes and few come at a time. A program may have
	// hundreds of watches, most of them idle, and each would keep a buffer of a whole chunk.
	waiting []byte
	trickle bool  // the last read brought few bytes
	offset  int64 // of start in the body
	passed  int   // bytes outside of frames since the last frame
	head    []byte
	err     error // returned when everything is cut
}

// cutter finds frames in bytes that begin after the last cut. cut returns the number of consumed
// bytes, and whether they held a frame. With neither, it needs more bytes.
type cutter interface {
	cut(b []byte) (frame Frame, n int, ok bool, err error)
	// end returns an error if a body must not end before rest, which no cut could consume.
	end(rest []byte) error
}

// DefaultLimit is the default limit of a frame in bytes: ten times etcd's default limit for one
// key.
const DefaultLimit = 16 << 20

// Watch cuts the body of a watch into events.
type Watch struct{ body }

// NewWatch returns a watch that reads from r. A limit of 0 means [DefaultLimit] bytes. The limit
// applies to each event, and to the bytes between two events.
func NewWatch(r io.Reader, format Format, limit int) *Watch {
	w := &Watch{newBody(r, limit)}
	w.trickle = true // it may begin with silence
	w.cutter = &jsonEvents{}
	if format == Protobuf {
		w.cutter = &protobufEvents{limit: w.limit}
	}
	return w
}

// List cuts the body of a list into its items.
type List struct {
	body
	meta ListMeta
}

// NewList returns a list that reads from r. A limit of 0 means [DefaultLimit] bytes. The limit
// applies to each item, and to the bytes between two items, before the first and after the last.
func NewList(r io.Reader, format Format, limit int) *List {
	l := &List{body: newBody(r, limit)}
	l.cutter = &jsonItems{meta: &l.meta}
	if format == Protobuf {
		l.cutter = &protobufItems{meta: &l.meta, limit: l.limit}
	}
	return l
}

func newBody(r io.Reader, limit int) body {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return body{r: r, limit: limit, head: make([]byte, 0, headSize)}
}

// Next waits for a frame and returns it with all other frames that have arrived. It returns io.EOF if
// the body has ended between events or after the list, the error of r, or one of this package if the body
// cannot be cut.
func (b *body) Next() (*Batch, error) {
	for {
		for b.start < b.end {
			frame, n, ok, err := b.cutter.cut(b.batch.buf[b.start:b.end])
			if err == nil && ok && len(frame.Object) > b.limit {
				err = tooLarge(b.limit)
			}
			if err != nil {
				b.fail(err)
				break
			}
			b.start += n
			b.offset += int64(n)
			b.passed += n
			if ok {
				b.passed = 0
				b.batch.Frames = append(b.batch.Frames, frame)
			} else if n == 0 {
				break
			}
		}
		if b.batch != nil && len(b.batch.Frames) > 0 {
			full, rest := b.batch, b.batch.buf[b.start:b.end]
			b.batch, b.start, b.end = nil, 0, 0
			if len(rest) > 0 {
				b.begin(len(rest))
				b.end = copy(b.batch.buf, rest)
			}
			return full, nil
		}
		if b.end-b.start > b.limit || b.passed > b.limit {
			b.fail(tooLarge(b.limit))
		}
		if b.err == io.EOF {
			if err := b.cutter.end(b.rest()); err != nil {
				b.fail(err)
			}
		}
		if b.err != nil {
			return nil, b.err
		}
		b.fill()
	}
}

// rest returns the bytes that are not cut yet.
func (b *body) rest() []byte {
	if b.batch == nil {
		return nil
	}
	return b.batch.buf[b.start:b.end]
}

// begin begins a batch with room for so many bytes and a chunk.
func (b *body) begin(bytes int) {
	b.batch = batches.Get().(*Batch)
	if len(b.batch.buf) < bytes {
		b.batch.buf = make([]byte, bytes+chunkSize)
	}
}

// fill reads until there are new bytes, or the body fails.
func (b *body) fill() {
	if b.batch != nil && b.start == b.end && b.trickle {
		b.batch.Release() // it has no frames
		b.batch, b.start, b.end = nil, 0, 0
	}
	if b.batch == nil && b.trickle {
		if b.waiting == nil {
			b.waiting = make([]byte, waitingSize)
		}
		n := b.read(b.waiting)
		b.begin(n)
		b.end = copy(b.batch.buf, b.waiting[:n])
		return
	}
	if b.batch == nil {
		b.begin(0)
	}
	buf := b.batch.buf
	if want := b.end - b.start + chunkSize/2; want > len(buf) {
		buf = make([]byte, 2*want)
	}
	if b.start > 0 || len(buf) > len(b.batch.buf) {
		b.end = copy(buf, b.batch.buf[b.start:b.end])
		b.start, b.batch.buf = 0, buf
	}
	b.end += b.read(buf[b.end:])
}

// read reads into a buffer, and notes the beginning of the body and how the read ended.
func (b *body) read(into []byte) int {
	const patience = 100
	for range patience {
		n, err := b.r.Read(into)
		b.head = append(b.head, into[:min(n, cap(b.head)-len(b.head))]...)
		b.err, b.trickle = err, n < waitingSize
		if n > 0 || err != nil {
			return n
		}
	}
	b.err = io.ErrNoProgress
	return 0
}

// fail gives up the rest of the body.
func (b *body) fail(err error) {
	b.err = fmt.Errorf("%w at byte %d", err, b.offset)
	b.end = b.start
}

// Head returns the beginning of the body, at most 512 bytes, for error texts.
func (b *body) Head() []byte { return b.head }

// ListMeta has the kind and metadata of a list.
type ListMeta struct {
	metav1.TypeMeta
	metav1.ListMeta
}

// Meta returns the list's metadata as far as it has arrived. It may come before or after the items,
// so it is complete only when Next has returned io.EOF. The kind comes early.
func (l *List) Meta() ListMeta { return l.meta }

// notList returns an error if the body has the kind of something other than a list. Without this
// check, a body without items, such as a Status, would pass for an empty list.
func (m *ListMeta) notList() error {
	if m.Kind == "" || strings.HasSuffix(m.Kind, "List") {
		return nil
	}
	return malformed("a %s is no list", m.Kind)
}

// Frame is an event of a watch or an item of a list, as bytes.
type Frame struct {
	// Type is the type of the event, such as "ADDED" or "ERROR"; empty for items of lists.
	Type string
	// Object is the object: JSON, or the protobuf message without its envelope. It is nil if the
	// event has no object. It is valid until the batch is released and must not be changed.
	Object []byte
	// APIVersion and Kind come from a protobuf envelope; nil if there is none.
	APIVersion, Kind []byte
	// Hash is the hash of the content, if a reader of the frame has set it: see [Outline.Hash].
	Hash uint64
	// Held is about an object that need not be decoded, if a reader of the frame has set it.
	Held Held

	line []byte // the line of a quick cut, without a scan of its inside; nil otherwise
}

// Held is the identity of an object that the reader of a frame holds already. Without a name, it holds none.
type Held struct{ Namespace, Name, ResourceVersion string }

// Batch holds the frames of one cut, in order.
type Batch struct {
	// Frames has at least one element when Next returns the batch.
	Frames []Frame
	buf    []byte
}

const (
	// chunkSize is the number of bytes of one read. It is also about the amount that one worker
	// decodes at a time.
	chunkSize = 64 << 10
	// waitingSize is the size of the buffer of an idle watch. Bookmarks are smaller, and most events.
	waitingSize = 1 << 10
	// pooledSize is the size of the largest buffer that the pool keeps.
	pooledSize = 4 * chunkSize
)

var batches = sync.Pool{New: func() any { return &Batch{buf: make([]byte, chunkSize)} }}

// Release gives the batch's memory back: its objects must not be used afterwards. A batch that is
// not released is garbage collected.
func (b *Batch) Release() {
	if cap(b.buf) > pooledSize {
		return
	}
	clear(b.Frames)
	b.Frames = b.Frames[:0]
	batches.Put(b)
}

// Size returns the number of bytes of the objects that must be decoded.
func (b *Batch) Size() int {
	n := 0
	for i := range b.Frames {
		if b.Frames[i].Held.Name == "" {
			n += len(b.Frames[i].Object)
		}
	}
	return n
}

// Format is the encoding of a response body.
type Format int

// The supported formats.
const (
	JSON Format = iota
	Protobuf
)

// String returns the format's name.
func (f Format) String() string {
	return [...]string{"JSON", "protobuf"}[f]
}

// Unmarshal decodes a type that every API has.
func Unmarshal(format Format, data []byte, into interface{ Unmarshal([]byte) error }) error {
	if format == Protobuf {
		return into.Unmarshal(data)
	}
	return utiljson.Unmarshal(data, into)
}
