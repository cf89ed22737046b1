package wire

import "sync"

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

	line []byte // the line of a quick cut, without a scan of its inside; nil otherwise
}

// Batch holds the frames of one cut, in order.
type Batch struct {
	// Frames has at least one element.
	Frames []Frame
	// Format is for callers that pass on batches of several bodies. This package does not set it.
	Format Format

	buf  []byte
	used int // of buf, by Append
}

const (
	// chunkSize is the number of bytes of one read. It is also about the amount that one worker
	// decodes at a time.
	chunkSize = 64 << 10
	// pooledSize is the size of the largest buffer that the pool keeps.
	pooledSize = 4 * chunkSize
)

var batches = sync.Pool{New: func() any { return &Batch{buf: make([]byte, chunkSize)} }}

func newBatch() *Batch { return batches.Get().(*Batch) }

// NewBatch returns an empty batch for [Batch.Append].
func NewBatch() *Batch { return newBatch() }

// Append appends a copy of a frame, and reports whether there was room for it. A batch without
// frames has room for any frame. Another batch has room for 64 kB in all, whatever it held before.
func (b *Batch) Append(f *Frame) bool {
	size := max(len(f.Object), len(f.line)) + len(f.APIVersion) + len(f.Kind)
	if len(b.Frames) == 0 {
		b.used = 0 // frames may have been removed
	} else if b.used+size > chunkSize {
		return false
	}
	if len(b.buf) < size {
		b.buf = make([]byte, size)
	}
	own := Frame{Type: f.Type, APIVersion: b.keep(f.APIVersion), Kind: b.keep(f.Kind)}
	if f.line == nil {
		own.Object = b.keep(f.Object)
	} else {
		own.line = b.keep(f.line)
		end := len(own.line) - len("}")
		own.Object = own.line[end-len(f.Object) : end : end]
	}
	b.Frames = append(b.Frames, own)
	return true
}

// keep copies bytes into the buffer, which must have room.
func (b *Batch) keep(bytes []byte) []byte {
	if bytes == nil {
		return nil
	}
	start := b.used
	b.used += copy(b.buf[start:], bytes)
	return b.buf[start:b.used:b.used]
}

// Release gives the batch's memory back: its objects must not be used afterwards. A batch that is
// not released is garbage collected.
func (b *Batch) Release() {
	if cap(b.buf) > pooledSize {
		return
	}
	clear(b.Frames)
	b.Frames, b.Format, b.used = b.Frames[:0], 0, 0
	batches.Put(b)
}

// Size returns the number of bytes of the objects.
func (b *Batch) Size() int {
	n := 0
	for i := range b.Frames {
		n += len(b.Frames[i].Object)
	}
	return n
}
