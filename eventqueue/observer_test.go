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

// audience writes down what it is told.
type audience struct {
	mu       sync.Mutex
	takings  []Taking
	settling []Settling
}

func (a *audience) Taken(t Taking) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.takings = append(a.takings, t)
}

func (a *audience) Settled(s Settling) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settling = append(a.settling, s)
}

// heard returns what was told since it was last asked.
func (a *audience) heard() ([]Taking, []Settling) {
	a.mu.Lock()
	defer a.mu.Unlock()
	takings, settling := a.takings, a.settling
	a.takings, a.settling = nil, nil
	return takings, settling
}

func TestObserverIsToldHowLongQueuesWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := &audience{}
		c := newThings(WithCompaction(KeepLatest), WithBackoff(time.Hour, time.Hour), WithObserver(heard))
		defer c.Close()
		require.NoError(t, c.Add(at("a", "u", 1)))
		<-time.After(time.Minute)
		require.NoError(t, c.Update(at("a", "u", 2)))
		require.NoError(t, c.Update(at("a", "u", 3)))
		q, err := c.Take(t.Context())
		require.NoError(t, err)
		takings, settling := heard.heard()
		assert.Equal(t, []Taking{{Key: key("a"), Waited: time.Minute, Events: 1, Merged: 2, Attempt: 1}}, takings)
		assert.Empty(t, settling, "it is out")

		require.NoError(t, c.Update(at("a", "u", 4)))
		require.NoError(t, c.Update(at("a", "u", 5)))
		q.Fail(errors.New("no"))
		<-time.After(time.Hour)
		q, err = c.Take(t.Context())
		require.NoError(t, err)
		takings, _ = heard.heard()
		assert.Equal(t, []Taking{{Key: key("a"), Waited: time.Minute + time.Hour, Events: 1, Merged: 4, Attempt: 2}}, takings, "since the first of its events came")
		q.Done()
	})
}

func TestObserverIsToldOnceHowQueuesWereSettled(t *testing.T) {
	no, never := errors.New("no"), Permanent(errors.New("never"))
	each := func(q *Queue[*thing], err error) {
		_ = q.Each(context.Background(), func(Event[*thing]) error { return err })
	}
	for _, row := range []struct {
		name   string
		settle func(*Queue[*thing])
		want   Settling
	}{
		{"done", func(q *Queue[*thing]) { q.Done(); q.Fail(no) }, Settling{Result: Acknowledged}},
		{"failed", func(q *Queue[*thing]) { q.Fail(no); q.Done() }, Settling{Result: Failed, Err: no}},
		{"given up", func(q *Queue[*thing]) { q.Fail(never) }, Settling{Result: GivenUp, Err: never}},
		{"put back", func(q *Queue[*thing]) { q.PutBack(); q.PutBack() }, Settling{Result: Returned}},
		{"nothing left to fail", func(q *Queue[*thing]) { each(q, nil); q.Fail(no) }, Settling{Result: Acknowledged}},
		{"one of them given up", func(q *Queue[*thing]) { each(q, never); q.Fail(never) }, Settling{Result: GivenUp, Err: never}},
	} {
		t.Run(row.name, func(t *testing.T) {
			heard := &audience{}
			c := newThings(WithObserver(heard))
			defer c.Close()
			require.NoError(t, c.Add(at("a", "u", 1)))
			require.NoError(t, c.Update(at("a", "u", 2)))
			q, err := c.Take(t.Context())
			require.NoError(t, err)
			row.settle(q)
			_, settling := heard.heard()
			row.want.Key, row.want.Events = key("a"), 2
			assert.Equal(t, []Settling{row.want}, settling)
		})
	}
}

func TestObserverHearsNothingOfAClosedCollection(t *testing.T) {
	heard := &audience{}
	c := newThings(WithObserver(heard))
	require.NoError(t, c.Add(at("a", "u", 1)))
	q, err := c.Take(t.Context())
	require.NoError(t, err)
	c.Close()
	q.Done()
	_, settling := heard.heard()
	assert.Empty(t, settling)
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
			c.Process(ctx, 3, func(context.Context, *Queue[*thing]) error { return nil })
		},
		"ProcessEach": func(ctx context.Context, c *Collection[*thing]) {
			c.ProcessEach(ctx, 3, func(context.Context, Event[*thing]) error { return nil }, nil)
		},
	}
	for name, consume := range consumers {
		t.Run(name, func(t *testing.T) {
			heard := &audience{}
			c := newThings(WithObserver(heard), WithCompaction(KeepAll))
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
			takings, settling := heard.heard()
			require.Len(t, settling, len(takings))
			taken, settled := 0, 0
			for i := range takings {
				taken, settled = taken+takings[i].Events, settled+settling[i].Events
				assert.Equal(t, Acknowledged, settling[i].Result)
			}
			assert.Equal(t, all, taken)
			assert.Equal(t, all, settled)
		})
	}
}

// deaf hears nothing.
type deaf struct{}

func (deaf) Taken(Taking)     {}
func (deaf) Settled(Settling) {}

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
	assert.Equal(t, cost(), cost(WithObserver(deaf{})))
}

func TestResultsHaveNames(t *testing.T) {
	for result, name := range map[Result]string{Returned: "Returned", Acknowledged: "Acknowledged", Failed: "Failed", GivenUp: "GivenUp", 9: "Result(9)"} {
		assert.Equal(t, name, result.String())
	}
}
