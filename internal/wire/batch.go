package wire

import "sync"

// Frame is an event of a watch or an item of a list, as bytes.
type Frame struct {
	// Type is that of the event, such as "ADDED" or "ERROR"; empty for items of lists.
	Type string
	// Object is the object: JSON, or the protobuf message without its envelope. It is nil
	// if the event has none. It is valid until the batch is released and must not be
	// changed.
	Object []byte
	// APIVersion and Kind are those of a protobuf envelope; nil if there is none.
	APIVersion, Kind []byte

	line []byte // that Object was cut from without looking inside; nil otherwise
}

// Batch is what was cut at once, in order.
type Batch struct {
	// Frames has at least one element.
	Frames []Frame
	// Format is for whoever hands batches of several bodies over. It is not set here.
	Format Format

	buf  []byte
	used int // of buf, by Append
}

const (
	// chunkSize is what is read at once, and with that about how much one worker decodes
	// at a time.
	chunkSize = 64 << 10
	// pooledSize is the largest buffer that is kept for another batch.
	pooledSize = 4 * chunkSize
)

var batches = sync.Pool{New: func() any { return &Batch{buf: make([]byte, chunkSize)} }}

func newBatch() *Batch { return batches.Get().(*Batch) }

// NewBatch returns an empty batch for [Batch.Append].
func NewBatch() *Batch { return newBatch() }

// Append appends a copy of a frame, and reports whether there is room for it: a batch without
// frames has room for any, and another for 64 kB in all, whatever it held before.
func (b *Batch) Append(f *Frame) bool {
	size := max(len(f.Object), len(f.line)) + len(f.APIVersion) + len(f.Kind)
	if len(b.Frames) == 0 {
		b.used = 0 // some may have been taken out
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

// keep copies bytes for which there is room.
func (b *Batch) keep(bytes []byte) []byte {
	if bytes == nil {
		return nil
	}
	start := b.used
	b.used += copy(b.buf[start:], bytes)
	return b.buf[start:b.used:b.used]
}

// Release gives the batch's memory back: no object of it may be used any more. A batch that
// is not released costs garbage and nothing else.
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
