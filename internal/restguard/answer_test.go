package restguard

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBodyIsReadUpToTheLimit(t *testing.T) {
	for size, want := range map[int]error{AnswerLimit: nil, AnswerLimit + 1: ErrTooLarge, AnswerLimit * 2: ErrTooLarge} {
		data, err := io.ReadAll(Bounded(io.NopCloser(bytes.NewReader(make([]byte, size)))))
		assert.Equal(t, want, err)
		assert.Len(t, data, AnswerLimit)
	}
}
