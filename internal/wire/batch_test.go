package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBatchTakesNoMoreThanAChunkWhateverItHeldBefore(t *testing.T) {
	half := &Frame{Type: "ADDED", Object: bytes.Repeat([]byte("x"), chunkSize/2)}
	whole := &Frame{Type: "ADDED", Object: bytes.Repeat([]byte("y"), 3*chunkSize)}
	for _, size := range []int{chunkSize, pooledSize} {
		b := &Batch{buf: make([]byte, size)}
		assert.True(t, b.Append(half))
		assert.True(t, b.Append(half))
		assert.False(t, b.Append(half), "it is one chunk")
		assert.Len(t, b.Frames, 2)

		b = &Batch{buf: make([]byte, size)}
		assert.True(t, b.Append(whole), "the first is taken whatever its size is")
		assert.False(t, b.Append(half))
		assert.Equal(t, whole.Object, b.Frames[0].Object)
		b.Frames = b.Frames[:0]
		assert.True(t, b.Append(half), "what was taken out makes room")
	}
}

func TestReleasedBatchesHaveTheFormatOfNoBody(t *testing.T) {
	b := NewBatch()
	b.Format = Protobuf
	b.Release()
	assert.Zero(t, b.Format)
}
