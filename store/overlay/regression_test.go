package overlay

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The cache receives everything up to 10 and still rejects another object.
func TestWriteThatTheCacheNeverGetsIsNotShownForEver(t *testing.T) {
	cache, o := over(t, "1")
	reject(t, cache, "5")
	written := pod("u", "9")
	wrote(t, o, written)
	shows(t, o, written)
	require.NoError(t, cache.Bookmark("10"))
	shows(t, o, nil)
	assert.Zero(t, o.Pending())
}

func TestWriteCallsTheKeyFuncWithoutTheLock(t *testing.T) {
	var o *Overlay[*object]
	calls, locked := 0, 0
	cache := store.New(func(of *object) (store.Key, error) {
		if o != nil {
			calls++
			if o.mu.TryLock() {
				o.mu.Unlock()
			} else {
				locked++
			}
		}
		return store.ObjectKey(of)
	})
	require.NoError(t, cache.Replace(nil, "1"))
	o = New(cache, 0)
	t.Cleanup(o.Close)
	wrote(t, o, pod("u", "9"))
	shows(t, o, pod("u", "9"))
	assert.NotZero(t, calls)
	assert.Zero(t, locked, "a KeyFunc that reads the overlay would block for ever")
}
