package eventqueue

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSeveralObserversAreAllTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unheard, all := &audience{}, []*audience{{}, {}, {}}
		opts := []Option{WithObserver(unheard), WithObserver(nil)}
		for _, one := range all {
			opts = append(opts, WithObserver(one))
		}
		c := newThings(opts...)
		defer c.Close()
		require.NoError(t, c.Add(at("a", "u", 1)))
		q, err := c.Take(t.Context())
		require.NoError(t, err)
		q.Done()
		for _, one := range all {
			takings, settling := one.heard()
			assert.Len(t, takings, 1)
			assert.Len(t, settling, 1)
		}
		takings, _ := unheard.heard()
		assert.Empty(t, takings)
	})
}
