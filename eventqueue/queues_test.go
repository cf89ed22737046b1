package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSettlingByTheWayTheBodyEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		body   func(*Queue[*thing]) (goOn bool)
		comes  string // "again", "later" or "never"
		panics bool
	}{
		"end of the body":  {body: func(*Queue[*thing]) bool { return true }, comes: "never"},
		"break":            {body: func(*Queue[*thing]) bool { return false }, comes: "again"},
		"Done, then break": {body: func(q *Queue[*thing]) bool { q.Done(); return false }, comes: "never"},
		"Fail":             {body: func(q *Queue[*thing]) bool { q.Fail(errors.New("no")); return true }, comes: "later"},
		"Fail, then break": {body: func(q *Queue[*thing]) bool { q.Fail(errors.New("no")); return false }, comes: "later"},
		"panic":            {body: func(*Queue[*thing]) bool { panic("ouch") }, comes: "later", panics: true},
		"Done, then panic": {body: func(q *Queue[*thing]) bool { q.Done(); panic("ouch") }, comes: "never", panics: true},
		"Done, then Fail":  {body: func(q *Queue[*thing]) bool { q.Done(); q.Fail(errors.New("no")); return true }, comes: "never"},
		"Fail before Done": {body: func(q *Queue[*thing]) bool { q.Fail(errors.New("no")); q.Done(); return true }, comes: "later"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newThings()
				require.NoError(t, c.Add(at("a", "u", 1)))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				loop := func() {
					for q := range c.Queues(ctx) {
						cancel() // the loop ends after this body at the latest
						if !tc.body(q) {
							break
						}
					}
				}
				if tc.panics {
					assert.PanicsWithValue(t, "ouch", loop, "a panic goes on")
				} else {
					loop()
				}
				switch tc.comes {
				case "again":
					assert.Equal(t, 1, take(t, c).Attempt(), "not counted as a failure")
				case "later":
					nothingReady(t, c)
					q, err := c.Take(t.Context())
					require.NoError(t, err)
					assert.Equal(t, 2, q.Attempt())
				case "never":
					assert.Zero(t, c.Len())
				}
			})
		})
	}
}

func TestGoexitInABodyPutsTheQueueBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		var loop sync.WaitGroup
		loop.Go(func() {
			for range c.Queues(t.Context()) {
				exit()
			}
		})
		loop.Wait()
		q, err := c.Take(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, q.Attempt())
	})
}

func TestBreakPutsTheQueueBackInFront(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Add(at("b", "u", 2)))
	for range c.Queues(t.Context()) {
		require.NoError(t, c.Update(at("a", "u", 3))) // this alone would put it behind b
		break
	}
	assert.Equal(t, key("a"), take(t, c).Key())
}

func TestEventsSettleOneByOne(t *testing.T) {
	c := newThings()
	for i := range 4 {
		require.NoError(t, c.Add(at("a", "u", i+1)))
	}
	var seen []Event[*thing]
	for e := range c.Events(t.Context()) {
		if seen = append(seen, e); len(seen) == 3 {
			break
		}
	}
	assert.Equal(t, []string{"+1", "1>2", "2>3"}, words(seen))
	assert.Equal(t, []string{"2>3", "3>4"}, words(collect(take(t, c))), "the event whose body broke comes again")
}

func TestEventsStopBetweenTwoEventsWhenTheContextEnds(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Add(at("a", "u", 2)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []Event[*thing]
	for e := range c.Events(ctx) {
		seen = append(seen, e)
		cancel()
	}
	assert.Equal(t, []string{"+1"}, words(seen))
	assert.Equal(t, []string{"1>2"}, words(collect(take(t, c))))
}

func TestSeveralGoroutinesShareOneSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		ctx, cancel := context.WithCancel(t.Context())
		queues := c.Queues(ctx)
		var mu sync.Mutex
		seen := map[store.Key]int{}
		var loops sync.WaitGroup
		for range 4 {
			loops.Go(func() {
				for q := range queues {
					mu.Lock()
					seen[q.Key()]++
					mu.Unlock()
				}
			})
		}
		for i := range 100 {
			require.NoError(t, c.Add(at(fmt.Sprint(i), "u", i+1)))
		}
		synctest.Wait()
		cancel()
		loops.Wait()
		assert.Len(t, seen, 100)
		for k, n := range seen {
			assert.Equal(t, 1, n, k)
		}
	})
}
