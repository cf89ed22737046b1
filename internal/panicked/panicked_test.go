package panicked

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStacksAreBoundedAndOtherErrorsAreNot(t *testing.T) {
	var s Stacks
	assert.NoError(t, s.Bound(nil))
	other := errors.New("ouch")
	for range 2 * MaxStacks {
		assert.Equal(t, other, s.Bound(other), "it does not count")
	}
	for range MaxStacks {
		err := fmt.Errorf("index %q: %w", "node", Error("ouch"))
		assert.Equal(t, err, s.Bound(err))
	}
	last := s.Bound(Error("ouch"))
	assert.ErrorIs(t, last, Err)
	assert.NotContains(t, last.Error(), "[running]")
	assert.Equal(t, last, s.Bound(last))
	assert.Equal(t, other, s.Bound(other))

	var next Stacks
	for range MaxStacks {
		assert.Equal(t, last, next.Bound(last), "it has no stack, so it does not count either")
	}
	err := Error("ouch")
	assert.Equal(t, err, next.Bound(err))
}
