package eventqueue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			for range c.Events(ctx) {
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

func TestObserverCostsNoMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("a sync.Pool drops states under the race detector")
	}
	cost := func(opts ...Option) float64 {
		c := newThings(append(opts, WithCompaction(KeepLatest))...)
		defer c.Close()
		all := commits(1)
		return testing.AllocsPerRun(1000, func() {
			c.follower.Commit(all[0])
			q, _ := c.Take(context.Background())
			q.Done()
		})
	}
	assert.Equal(t, cost(), cost(WithObserver(func(TakeInfo) {})))
}
