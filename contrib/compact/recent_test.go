package compact

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShortWriteCopiesNothingOfALongOne(t *testing.T) {
	r := &recent[int]{limit: 4}
	long := r.write()
	for n := range 100 {
		r.stage(new(Packed[int]), n)
	}
	short := r.write()
	r.stage(new(Packed[int]), 100)
	first := &r.staged[0]
	short()
	assert.Same(t, first, &r.staged[0])
	assert.Len(t, r.staged, 101)
	long()
	assert.Empty(t, r.staged)
}
