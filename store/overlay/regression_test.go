package overlay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The cache is told of everything up to 10 and still rejects another object.
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
