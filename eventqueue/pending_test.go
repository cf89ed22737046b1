package eventqueue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/store"
)

func TestPendingKeysComeOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings(WithBackoff(time.Hour, time.Hour))
		defer c.Close()
		assert.Empty(t, c.Pending(10))
		require.NoError(t, c.Add(at("a", "u", 1)))
		<-time.After(time.Minute)
		require.NoError(t, c.Update(at("a", "u", 2)))
		require.NoError(t, c.Add(at("b", "u", 1)))
		assert.Equal(t, []Pending{
			{Key: store.Key{Name: "a"}, Events: 2, Age: time.Minute},
			{Key: store.Key{Name: "b"}, Events: 1},
		}, c.Pending(10))
		assert.Len(t, c.Pending(1), 1)
		assert.Empty(t, c.Pending(0))

		failure := errors.New("no")
		take(t, c).Fail(failure)
		<-time.After(time.Second)
		b := take(t, c)
		require.NoError(t, c.Update(at("b", "u", 2)))
		states := c.Pending(10)
		require.Len(t, states, 2)
		assert.Equal(t, 1, states[0].Failures)
		assert.Equal(t, failure, states[0].Err)
		assert.Greater(t, states[0].RetryIn, 20*time.Minute)
		assert.Equal(t, Pending{Key: store.Key{Name: "b"}, Events: 2, Age: time.Second, InFlight: true}, states[1], "with the later event")
		b.Done()
		assert.Equal(t, Pending{Key: store.Key{Name: "b"}, Events: 1}, c.Pending(10)[1])
	})
}
