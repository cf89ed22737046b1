package compact

import (
	"github.com/klauspost/compress/zstd"
)

// dictionary has common parts of objects, and a decoder for the objects that were packed with it.
// Each packed object refers to its dictionary. The garbage collector frees a dictionary with the
// last of its objects.
type dictionary[T any] struct {
	packer  *Packer[T]
	content []byte
	decoder *zstd.Decoder
}

// dictionaryID is the id of every dictionary: an object refers to its dictionary directly.
const dictionaryID = 1

// newDictionary returns a dictionary, which may be empty.
func newDictionary[T any](packer *Packer[T], content []byte) (*dictionary[T], error) {
	opts := []zstd.DOption{zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true)}
	if len(content) > 0 {
		opts = append(opts, zstd.WithDecoderDictRaw(dictionaryID, content))
	}
	decoder, err := zstd.NewReader(nil, opts...)
	if err != nil {
		return nil, err
	}
	return &dictionary[T]{packer: packer, content: content, decoder: decoder}, nil
}

// encoder returns an encoder with the dictionary. It is large, so only the newest dictionary has
// one.
func (d *dictionary[T]) encoder() (*zstd.Encoder, error) {
	opts := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.SpeedFastest), // with a dictionary, the other levels save 2%
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true),
	}
	if len(d.content) > 0 {
		opts = append(opts, zstd.WithEncoderDictRaw(dictionaryID, d.content))
	}
	return zstd.NewWriter(nil, opts...)
}

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

func newCoder[T any](packer *Packer[T], content []byte) (*coder[T], error) {
	d, err := newDictionary(packer, content)
	if err != nil {
		return nil, err
	}
	e, err := d.encoder()
	return &coder[T]{d, e}, err
}
