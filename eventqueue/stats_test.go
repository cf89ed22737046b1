package eventqueue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings(WithBackoff(time.Hour, time.Hour))
		defer c.Close()
		assert.Zero(t, c.Stats())

		require.NoError(t, c.Add(at("a", "u", 1)))
		<-time.After(time.Minute)
		require.NoError(t, c.Update(at("a", "u", 2)))
		require.NoError(t, c.Add(at("b", "u", 1)))
		assert.Equal(t, Stats{Keys: 2, Waiting: 2, Events: 3, Oldest: time.Minute}, c.Stats())

		a := take(t, c)
		require.NoError(t, c.Update(at("a", "u", 3)))
		assert.Equal(t, Stats{Keys: 2, Waiting: 2, InFlight: 1, Events: 4, Oldest: time.Minute}, c.Stats(), "what is out counts")
		a.Done()
		assert.Equal(t, Stats{Keys: 2, Waiting: 2, Events: 2}, c.Stats(), "the oldest is done")

		<-time.After(time.Second)
		take(t, c).Fail(errors.New("no"))
		assert.Equal(t, Stats{Keys: 2, Waiting: 2, Delayed: 1, Events: 2, Oldest: time.Second}, c.Stats())
		take(t, c).Done()
		<-time.After(time.Hour)
		assert.Equal(t, Stats{Keys: 1, Waiting: 1, Events: 1, Oldest: time.Second + time.Hour}, c.Stats(), "a failed one keeps its age")
		take(t, c).Fail(&PanicError{})
		assert.EqualValues(t, 1, c.Stats().Retries)
		assert.EqualValues(t, 1, c.Stats().Panics)
		require.NoError(t, c.Update(at("b", "u", 4)))
		take(t, c).Fail(Permanent(errors.New("never")))
		assert.Equal(t, Stats{Retries: 2, Panics: 1, GivenUp: 1}, c.Stats())
	})
}

func TestStatsCountWhatIsMerged(t *testing.T) {
	c := newThings(WithCompaction(KeepLatest))
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Update(at("a", "u", 2)))
	require.NoError(t, c.Update(at("a", "u", 3)))
	assert.EqualValues(t, 2, c.Stats().Merged)
	c.Resync()
	assert.EqualValues(t, 3, c.Stats().Merged, "a resync said nothing new")
	require.NoError(t, c.Delete(at("a", "u", 4)))
	assert.Equal(t, Stats{Merged: 5}, c.Stats(), "an addition and a deletion cancel each other")

	require.NoError(t, c.Add(at("a", "u", 5)))
	q := take(t, c)
	c.Resync()
	assert.EqualValues(t, 6, c.Stats().Merged)
	require.NoError(t, c.Update(at("a", "u", 6)))
	q.Requeue()
	assert.EqualValues(t, 7, c.Stats().Merged, "with what was put back")
	assert.Equal(t, 1, c.Stats().Events)
}

func TestStatsOfAClosedCollection(t *testing.T) {
	c := newThings(WithCompaction(KeepLatest))
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Update(at("a", "u", 2)))
	q := take(t, c)
	c.Close()
	q.Done()
	assert.Equal(t, Stats{Merged: 1}, c.Stats())
}
