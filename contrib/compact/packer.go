package compact

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"github.com/kubereflector/kubereflector/internal/discreet"
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
	p.learner.random, p.learner.look = rand.New(rand.NewPCG(1, 2)), firstLook
	p.recent.limit = o.recent
	p.scratch.New = func() any { return new(scratch) }
	p.form, p.failure = formOf[T]()
	if p.failure == nil && keyOf == nil {
		p.failure = errors.New("there is no KeyFunc: pass one, such as store.ObjectKey")
	}
	if p.failure == nil {
		var first *coder[T]
		first, p.failure = newCoder(p, nil)
		p.current.Store(first)
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

// recovering turns a panic in a user's or a generated function into an error.
func recovering[R any](do func() (R, error)) (result R, err error) {
	defer func() {
		if value := recover(); value != nil {
			var none R
			result, err = none, discreet.Panicked(value)
		}
	}()
	return do()
}

// dictionary has common parts of objects, and a decoder for the objects that were packed with it.
// Each packed object refers to its dictionary. The garbage collector frees a dictionary with the
// last of its objects.
type dictionary[T any] struct {
	packer  *Packer[T]
	decoder *zstd.Decoder
}

// dictionaryID is the id of every dictionary: an object refers to its dictionary directly.
const dictionaryID = 1

// window is how far back in an object a match can be. Larger windows make encoders larger.
const window = 128 << 10

// unpack returns the object of a frame.
func (d *dictionary[T]) unpack(frame string) (T, error) {
	scratch := d.packer.scratch.Get().(*scratch)
	defer d.packer.scratch.Put(scratch)
	scratch.frame = append(scratch.frame[:0], frame...)
	var err error
	scratch.plain, err = d.decoder.DecodeAll(scratch.frame, scratch.plain[:0])
	if err != nil {
		var none T
		return none, err
	}
	defer scratch.trim()
	return recovering(func() (T, error) { return d.packer.form.parse(scratch.plain) })
}

// scratch is memory for one object.
type scratch struct{ plain, frame []byte }

// trim frees the memory of an unusually large object.
func (s *scratch) trim() {
	const usual = 1 << 20
	if cap(s.plain) > usual {
		s.plain = nil
	}
	if cap(s.frame) > usual {
		s.frame = nil
	}
}

// coder packs with one dictionary.
type coder[T any] struct {
	dictionary *dictionary[T]
	encoder    *zstd.Encoder
}

// newCoder returns a coder for a dictionary, which may be empty. The encoder is large, so only the
// newest dictionary has one.
func newCoder[T any](packer *Packer[T], content []byte) (*coder[T], error) {
	decoding := []zstd.DOption{zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true)}
	encoding := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.SpeedFastest), // with a dictionary, the other levels save 2%
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true),
	}
	if len(content) > 0 {
		decoding = append(decoding, zstd.WithDecoderDictRaw(dictionaryID, content))
		encoding = append(encoding, zstd.WithEncoderDictRaw(dictionaryID, content))
	}
	decoder, err := zstd.NewReader(nil, decoding...)
	if err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, encoding...)
	return &coder[T]{&dictionary[T]{packer, decoder}, encoder}, err
}

// learner samples packed objects, and makes dictionaries of one half of the sample. It tries them on the other
// half.
type learner[T any] struct {
	// mu protects the fields below it.
	mu     sync.Mutex
	random *rand.Rand
	sample [][]byte // some of the objects since the last look
	seen   int      // objects since the last look
	look   int      // objects until the next look
}

const (
	// firstLook is so small that the size of the objects before it does not matter.
	firstLook = 16
	// The interval between looks grows by the factor rarer, up to lastLook.
	rarer    = 8
	lastLook = 4_096

	// sampled is the largest number of objects in a sample. The learner uses the first sampledBytes
	// of each object.
	sampled      = 64
	sampledBytes = 16 << 10

	// dictionarySize is in bytes. Twice the size saves 3% of pods, and makes each decoder slower.
	dictionarySize = 32 << 10

	// maxDictionaries is the largest number of dictionaries in use. Each has its content and a
	// decoder.
	maxDictionaries = 8
	// gain is the part of the packed size that a new dictionary must save.
	gain = 0.1
)

// observe samples an encoded object. Sometimes it learns, and returns a coder if that coder packs
// better than the current one.
func (l *learner[T]) observe(p *Packer[T], plain []byte) *coder[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen++
	kept := plain[:min(len(plain), sampledBytes)]
	switch place := l.random.IntN(l.seen); {
	case len(l.sample) < sampled:
		l.sample = append(l.sample, append([]byte(nil), kept...))
	case place < sampled:
		l.sample[place] = append(l.sample[place][:0], kept...)
	}
	if l.seen < l.look {
		return nil
	}
	found := l.learn(p)
	l.seen, l.sample, l.look = 0, nil, min(l.look*rarer, lastLook)
	return found
}

// learn makes a dictionary of half of the sample, and tries it on the other half.
func (l *learner[T]) learn(p *Packer[T]) *coder[T] {
	if p.dictionaries.Load() >= maxDictionaries {
		return nil
	}
	var taught, tried [][]byte
	for i, plain := range l.sample {
		if i%2 == 0 {
			taught = append(taught, plain)
		} else {
			tried = append(tried, plain)
		}
	}
	content := chosen(taught, dictionarySize)
	if len(content) == 0 {
		return nil
	}
	candidate, err := newCoder(p, content)
	if err != nil {
		return nil // keep the current coder
	}
	current, before, after := p.current.Load(), 0, 0
	var frame []byte
	for _, plain := range tried {
		frame = current.encoder.EncodeAll(plain, frame[:0])
		before += len(frame)
		frame = candidate.encoder.EncodeAll(plain, frame[:0])
		after += len(frame)
	}
	if float64(after) > (1-gain)*float64(before) {
		return nil
	}
	p.dictionaries.Add(1) // while objects refer to it
	runtime.AddCleanup(candidate.dictionary, func(n *atomic.Int32) { n.Add(-1) }, p.dictionaries)
	return candidate
}

const (
	// gram is how many bytes chosen compares at once.
	gram = 8
	// novelty is the part of an object that must be new before the object joins a dictionary.
	novelty = 1.0 / 8
)

// chosen returns texts that each differ from the texts before, up to a size. It takes whole texts:
// equal parts of another object are then at the same distance from beginning to end. For pods, that
// compresses a third better than any choice of parts.
func chosen(texts [][]byte, size int) (content []byte) {
	seen := make(map[uint64]struct{}, 2*size)
	for _, text := range texts {
		if len(content)+len(text) > size {
			continue
		}
		news := 0
		for g := range grams(text) {
			if _, known := seen[g]; !known {
				news++
			}
		}
		if float64(news) < novelty*float64(len(text)) {
			continue
		}
		for g := range grams(text) {
			seen[g] = struct{}{}
		}
		content = append(content, text...)
	}
	return content
}

// grams iterates over all sequences of gram bytes in a text.
func grams(text []byte) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for at := 0; at+gram <= len(text); at++ {
			if !yield(binary.LittleEndian.Uint64(text[at:])) {
				return
			}
		}
	}
}
