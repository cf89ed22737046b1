package decode

import (
	"bytes"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/require"
)

// decodes decodes one object from memory that is overwritten afterwards, as that of a batch is.
func decodes[T any](tb testing.TB, d *Decoder[T], format wire.Format, data []byte) (T, error) {
	tb.Helper()
	buffer := bytes.Clone(data)
	object, err := d.Decode(format, buffer)
	for i := range buffer {
		buffer[i] = 'X'
	}
	return object, err
}

// decoderOf returns a decoder of T.
func decoderOf[T any](tb testing.TB, opts ...Option) *Decoder[T] {
	tb.Helper()
	codec, err := For[T](opts...)
	require.NoError(tb, err)
	return codec.NewDecoder()
}
