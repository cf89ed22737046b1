package eventqueue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
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
	q.Release()
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

// audience is an observer that keeps its calls.
type audience struct {
	mu    sync.Mutex
	calls []TakeInfo
}

func (a *audience) taken(info TakeInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, info)
}

// heard returns the calls since its last call.
func (a *audience) heard() []TakeInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls
	a.calls = nil
	return calls
}

func TestObserverIsToldHowLongQueuesWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := &audience{}
		c := newThings(WithCompaction(KeepLatest), WithBackoff(time.Hour, time.Hour), WithObserver(heard.taken))
		defer c.Close()
		require.NoError(t, c.Add(at("a", "u", 1)))
		<-time.After(time.Minute)
		require.NoError(t, c.Update(at("a", "u", 2)))
		require.NoError(t, c.Update(at("a", "u", 3)))
		q, err := c.Take(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []TakeInfo{{Key: key("a"), Waited: time.Minute, Events: 1, Merged: 2, Attempt: 1}}, heard.heard())

		require.NoError(t, c.Update(at("a", "u", 4)))
		require.NoError(t, c.Update(at("a", "u", 5)))
		q.Fail(errors.New("no"))
		<-time.After(time.Hour)
		q, err = c.Take(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []TakeInfo{{Key: key("a"), Waited: time.Minute + time.Hour, Events: 1, Merged: 4, Attempt: 2}}, heard.heard(), "since the first of its events came")
		q.Done()
	})
}

func TestSeveralObserversAreAllTold(t *testing.T) {
	all := []*audience{{}, {}, {}}
	opts := []Option{WithObserver(nil)}
	for _, one := range all {
		opts = append(opts, WithObserver(one.taken), WithObserver(nil))
	}
	c := newThings(opts...)
	defer c.Close()
	require.NoError(t, c.Add(at("a", "u", 1)))
	q, err := c.Take(t.Context())
	require.NoError(t, err)
	q.Done()
	for _, one := range all {
		assert.Len(t, one.heard(), 1)
	}
}

func TestObserverIsToldWhateverConsumes(t *testing.T) {
	consumers := map[string]func(context.Context, *Collection[*thing]){
		"Queues": func(ctx context.Context, c *Collection[*thing]) {
			for range c.Queues(ctx) {
			}
		},
		"Events": func(ctx context.Context, c *Collection[*thing]) {
			for range c.Consume(ctx) {
			}
		},
		"Process": func(ctx context.Context, c *Collection[*thing]) {
			c.Process(ctx, 3, func(context.Context, *Queue[*thing]) error { return nil }, nil)
		},
		"ProcessEach": func(ctx context.Context, c *Collection[*thing]) {
			c.ProcessEach(ctx, 3, func(context.Context, Event[*thing]) error { return nil }, nil)
		},
	}
	for name, consume := range consumers {
		t.Run(name, func(t *testing.T) {
			heard := &audience{}
			c := newThings(WithObserver(heard.taken), WithCompaction(KeepAll))
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { consume(ctx, c) })
			const all = 1000
			for i := range all {
				require.NoError(t, c.Add(at([]string{"a", "b", "c", "d"}[i%4], "u", i)))
			}
			require.NoError(t, c.Drain(t.Context()))
			stop()
			running.Wait()
			taken := 0
			for _, call := range heard.heard() {
				taken += call.Events
			}
			assert.Equal(t, all, taken)
		})
	}
}
