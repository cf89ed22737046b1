package compact

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/store"
)

// Packer packs objects of one type, and learns their common parts. See the package documentation
// for the fields that it keeps.
//
// Create one with [NewPacker]. All methods are safe for concurrent use.
type Packer[T any] struct {
	keyOf   store.KeyFunc[T]
	form    form[T]
	failure error // why Pack always fails, or nil
	current atomic.Pointer[coder[T]]
	learner learner[T]
	recent  recent[T]
	scratch sync.Pool
	// dictionaries counts the dictionaries in use. It is a pointer, because the cleanup of each
	// dictionary refers to it, and must not refer to the packer.
	dictionaries *atomic.Int32
}

// Option configures a [Packer] or a [Store]: see [WithRecent].
type Option interface{ apply(*options) }

type options struct{ recent int }

type recentOption int

func (o recentOption) apply(to *options) { to.recent = max(0, int(o)) }

// defaultRecent is a few megabytes of pods.
const defaultRecent = 512

// WithRecent sets how many recently read or written objects stay decoded. The default is 512. With
// 0 each read decodes the object, and gets its own copy.
func WithRecent(objects int) Option { return recentOption(objects) }

// NewPacker returns a packer. keyOf derives the key of each object. Without a KeyFunc, or with a T
// that is no pointer to a struct, Pack fails.
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

// Pack packs an object. The packer also keeps the object decoded as if it had been read, so the
// caller must not change it any more.
//
// Pack fails if the object has no key, or if it cannot be encoded. It also decodes each object in
// JSON again, and fails if that fails. It relies on generated protobuf methods.
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

// adopt counts the dictionary of a coder while objects refer to it.
func (p *Packer[T]) adopt(c *coder[T]) {
	p.dictionaries.Add(1)
	runtime.AddCleanup(c.dictionary, func(n *atomic.Int32) { n.Add(-1) }, p.dictionaries)
}

// recovering turns a panic in a user's or a generated function into an error.
func recovering[R any](do func() (R, error)) (result R, err error) {
	defer func() {
		if value := recover(); value != nil {
			var none R
			result, err = none, fmt.Errorf("%w: %v", store.ErrPanic, value)
		}
	}()
	return do()
}
