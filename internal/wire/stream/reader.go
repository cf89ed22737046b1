package stream

import (
	"bytes"
	"runtime"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reader reads the responses for one resource. The functions may be called by several goroutines at
// once.
type Reader[T Object] struct {
	Resource string // for errors, such as "foos.example.com/v1"
	Type     string // the Go type of the objects, for errors

	// NewDecoder returns a decoder of objects. The decoder calls report for JSON fields that the
	// type lacks, if Unknown is not nil.
	NewDecoder func(report func(error)) *decode.Decoder[T]
	Unknown    func(*DecodeError) // for objects with fields that the type lacks; may be nil

	// WithoutManagedFields says that the decoder drops metadata.managedFields. They are then no part
	// of an object's content.
	WithoutManagedFields bool

	MaxObjectBytes int // 0 is the default
	Decoders       int // the largest number of goroutines that decode a response; 0 is the default
	Pool           *Pool[T]

	// These functions return an error if a response is not for the resource.

	CheckKind      func(metav1.TypeMeta) error
	CheckList      func(list metav1.TypeMeta, bare bool) error // bare: the items do not state their kind
	CheckNamespace func(string) error
}

// Object reads a response that is one object. It also returns the object's key, because the methods
// of the object may panic.
func (r *Reader[T]) Object(from *Response) (object T, key store.Key, err error) {
	data, err := from.ReadAll(r.MaxObjectBytes)
	if err != nil {
		return object, key, err
	}
	d := r.get()
	defer r.put(d)
	format, _ := from.format()
	if format == wire.JSON {
		data = bytes.TrimRight(data, " \t\r\n") // API servers end a response with a newline, and decoders are slow with it
	}
	decoded, err := d.decode(format, data)
	if err != nil {
		return object, key, err
	}
	if _, err := d.check(decoded.object, decoded.key.Namespace, format, data); err != nil {
		return object, key, from.Fail(nil, err)
	}
	return decoded.object, decoded.key, nil
}

// Pool keeps idle decoders, with their tables of repeated values. The zero value is an empty Pool.
type Pool[T Object] struct {
	mu    sync.Mutex // protects the fields below
	spare []*decoder[T]
	keep  int // the largest length of spare; 0 is 1
}

// get returns a decoder: a spare one, which has cached values from earlier objects, if there is one.
func (r *Reader[T]) get() *decoder[T] {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.spare)
	if n == 0 {
		return &decoder[T]{of: r}
	}
	d := p.spare[n-1]
	p.spare = p.spare[:n-1]
	d.of = r
	return d
}

// put keeps a decoder for the next list or watch, unless there are enough spare decoders.
func (r *Reader[T]) put(d *decoder[T]) {
	p := r.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.spare) < max(p.keep, 1) {
		p.spare = append(p.spare, d)
	}
}

// keepAll makes put keep one decoder for each processor, for the pages of a list.
func (p *Pool[T]) keepAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = runtime.GOMAXPROCS(0)
}

// keepFew drops most spare decoders and their cached values. A watch that has caught up needs one
// decoder, and rarely a second.
func (p *Pool[T]) keepFew() {
	const few = 2
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = few
	if extra := len(p.spare) - few; extra > 0 {
		p.spare = slices.Delete(p.spare, 0, extra)
	}
}
