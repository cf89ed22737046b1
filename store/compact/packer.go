package compact

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/store"
)

// Packer packs objects of one kind, and learns from them what they have in common. See the
// package documentation for what is kept of an object.
//
// Create one with [NewPacker]. All methods are safe for concurrent use.
type Packer[T any] struct {
	keyOf   store.KeyFunc[T]
	form    form[T]
	failure error // why nothing can be packed
	current atomic.Pointer[coder[T]]
	learner learner[T]
	recent  recent[T]
	scratch sync.Pool
	// dictionaries counts those that objects refer to. It is no part of the packer, because
	// each of them has a cleanup that holds on to it.
	dictionaries *atomic.Int32
}

// Option changes how objects are kept: see [WithRecent].
type Option interface{ apply(*options) }

type options struct{ recent int }

type recentOption int

func (o recentOption) apply(to *options) { to.recent = max(0, int(o)) }

// defaultRecent is a few megabytes of pods.
const defaultRecent = 512

// WithRecent keeps at most so many objects decoded, those that were read or written
// lately; it is 512 without this option. With 0 each read decodes, and gets an object of
// its own.
func WithRecent(objects int) Option { return recentOption(objects) }

// NewPacker returns a packer of objects that keyOf gives their keys. Without a KeyFunc, or
// with a T that is no pointer to a struct, Pack fails.
func NewPacker[T any](keyOf store.KeyFunc[T], opts ...Option) *Packer[T] {
	o := options{recent: defaultRecent}
	for _, opt := range opts {
		opt.apply(&o)
	}
	p := &Packer[T]{keyOf: keyOf, dictionaries: new(atomic.Int32)}
	p.recent.limit = o.recent
	p.scratch.New = func() any { return new(scratch) }
	p.learner.begin()
	p.form, p.failure = formOf[T]()
	if p.failure == nil && keyOf == nil {
		p.failure = errors.New("there is no KeyFunc: pass one, such as store.ObjectKey")
	}
	if p.failure == nil {
		var first *coder[T]
		if first, p.failure = newCoder(p, nil); p.failure == nil {
			p.current.Store(first)
		}
	}
	return p
}

// Pack packs an object. The object itself is kept as one that was read lately, and must not
// be changed any more.
//
// An error says why the object cannot be packed: there is no key for it, it cannot be
// encoded, or what it was encoded to cannot be decoded again. The last is tried for each
// object in JSON; generated protobuf methods are relied on.
func (p *Packer[T]) Pack(object T) (*Packed[T], error) {
	if p.failure != nil {
		return nil, p.failure
	}
	return recovering(func() (*Packed[T], error) { return p.pack(object) })
}

func (p *Packer[T]) pack(object T) (*Packed[T], error) {
	key, err := p.keyOf(object)
	if err != nil {
		return nil, err
	}
	s := p.scratch.Get().(*scratch)
	defer p.scratch.Put(s)
	defer s.trim()
	if s.plain, err = p.form.append(s.plain[:0], object); err != nil {
		return nil, fmt.Errorf("encode %q: %w", key, err)
	}
	if !p.form.trusted() {
		if _, err := p.form.parse(s.plain); err != nil {
			return nil, &DecodeError{Key: key, Err: err}
		}
	}
	if learned := p.learner.observe(p, s.plain); learned != nil {
		p.current.Store(learned)
	}
	c := p.current.Load()
	s.frame = appendHeader(s.frame[:0], key, store.VersionOf(object))
	s.frame = c.encoder.EncodeAll(s.plain, s.frame)
	packed := &Packed[T]{by: c.dictionary, data: string(s.frame)}
	p.recent.stage(packed, object)
	return packed, nil
}

// adopt makes a dictionary out of parts of objects, and counts it as long as objects refer
// to it.
func (p *Packer[T]) adopt(c *coder[T]) {
	p.dictionaries.Add(1)
	runtime.AddCleanup(c.dictionary, func(n *atomic.Int32) { n.Add(-1) }, p.dictionaries)
}

// recovering makes an error of a panic in code of others.
func recovering[R any](do func() (R, error)) (result R, err error) {
	defer func() {
		if value := recover(); value != nil {
			var none R
			result, err = none, fmt.Errorf("%w: %v", store.ErrPanic, value)
		}
	}()
	return do()
}
