package compact

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Two goroutines take turns, and one of them always writes.
func TestWritersWhoTakeTurnsKeepNoMoreAndMore(t *testing.T) {
	var r recent[*int]
	r.limit = 4
	var first *Packed[*int]
	done := r.write()
	for range 100 {
		p := &Packed[*int]{}
		r.stage(p, new(int))
		if first == nil {
			first = p
		}
		next := r.write()
		assert.NotNil(t, p.live.Load(), "its write is not done")
		done()
		done = next
		assert.Less(t, len(r.staged), 4)
	}
	assert.Nil(t, first.live.Load())
	done()
	assert.Empty(t, r.staged)
	assert.Len(t, r.slots, 4)
}
