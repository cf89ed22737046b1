package eventqueue

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

func TestCollectionKeepsTheLatestByDefault(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	for _, c := range []*Collection[*thing]{New(store.ObjectKey[*thing]), Follow(cache), FollowFiltered(cache, nil)} {
		defer c.Close()
		writes := cache.Update
		if c.owned {
			writes = c.Update
		}
		for version := range 100 {
			assert.NoError(t, writes(at("a", "u", version+1)))
		}
		assert.Equal(t, 1, take(t, c).Len())
	}
}
