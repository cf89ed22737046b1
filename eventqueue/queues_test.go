package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	for e := range c.Consume(t.Context()) {
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
	for e := range c.Consume(ctx) {
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

// takeAll takes and acknowledges all that is ready, and returns the names.
func takeAll(t *testing.T, c *Collection[*thing]) string {
	var names []string
	for {
		q, err := tryTake(c)
		require.NoError(t, err)
		if q == nil {
			return strings.Join(names, " ")
		}
		names = append(names, q.Key().Name)
		q.Done()
	}
}

// listed returns a collection with initial events of a to i, and news of x and y.
func listed(t *testing.T, opts ...Option) *Collection[*thing] {
	c := newThings(opts...)
	var list []*thing
	for _, name := range strings.Split("abcdefghi", "") {
		list = append(list, at(name, name, 1))
	}
	require.NoError(t, c.Replace(list, "1"))
	require.NoError(t, c.Add(at("x", "x", 2)))
	require.NoError(t, c.Add(at("y", "y", 3)))
	return c
}

func TestNewsWaitInLineUnlessTheyGoFirst(t *testing.T) {
	assert.Equal(t, "a b c d e f g h i x y", takeAll(t, listed(t)))
	assert.Equal(t, "x y a b c d e f g h i", takeAll(t, listed(t, WithPriority(true))))
}

func TestNewsOfAnInitialObjectTakeItsInitialEventAlong(t *testing.T) {
	c := listed(t, WithPriority(true))
	require.NoError(t, c.Update(at("c", "c", 4)))
	take(t, c).Done()
	take(t, c).Done()
	news := take(t, c)
	assert.Equal(t, []string{"+1", "1>4"}, words(collect(news)))
	require.NoError(t, c.Add(at("z", "z", 5)))
	news.Release()
	assert.Equal(t, "c", take(t, c).Key().Name, "they are still news")
}

func TestFailedNewsTakeLaterInitialEventsAlong(t *testing.T) {
	c := newThings(WithPriority(true))
	require.NoError(t, c.Add(at("a", "a", 1)))
	a := take(t, c)
	require.NoError(t, c.Replace([]*thing{at("b", "b", 2), at("a", "a", 2)}, "2"))
	a.Fail(errors.New("no"))
	require.NoError(t, c.Update(at("a", "a", 3)))
	assert.Equal(t, "a b", takeAll(t, c))
}

func TestResyncCanWait(t *testing.T) {
	c := listed(t, WithPriority(true))
	takeAll(t, c)
	c.Resync()
	require.NoError(t, c.Update(at("h", "h", 4)))
	require.NoError(t, c.Update(at("g", "g", 5)))
	assert.Equal(t, "h g a b c d e f i x y", takeAll(t, c))
}

func TestWhatARelistBringsToLightIsNews(t *testing.T) {
	c := listed(t, WithPriority(true))
	takeAll(t, c)
	c.Resync()
	require.NoError(t, c.Replace([]*thing{at("z", "z", 9)}, "9"))
	assert.Equal(t, "a b c d e f g h i x y z", takeAll(t, c), "deletions and an addition")
	require.NoError(t, c.Add(at("b", "b", 10)))
	c.Resync()
	require.NoError(t, c.Replace([]*thing{at("b", "b", 10), at("c", "c", 11), at("z", "z", 9)}, "11"))
	assert.Equal(t, "b c z", takeAll(t, c), "only z is as it was")
}

func TestWhatCanWaitGetsItsShare(t *testing.T) {
	c := newThings(WithPriority(true))
	require.NoError(t, c.Replace([]*thing{at("a", "a", 1), at("b", "b", 1), at("c", "c", 1)}, "1"))
	var order strings.Builder
	for i := range 30 {
		// News never end.
		require.NoError(t, c.Add(at(fmt.Sprint("live", i, "a"), "u", 10+i)))
		require.NoError(t, c.Add(at(fmt.Sprint("live", i, "b"), "u", 10+i)))
		q := take(t, c)
		order.WriteString(q.Key().Name[:1])
		q.Done()
	}
	assert.Equal(t, "lllllllalllllllblllllllcllllll", order.String(), "one in eight")
}

func TestFailedNewsStayNews(t *testing.T) {
	c := listed(t, WithPriority(true))
	x := take(t, c)
	require.Equal(t, "x", x.Key().Name)
	x.Release()
	assert.Equal(t, "x", take(t, c).Key().Name, "in front")

	c = listed(t, WithPriority(true), WithBackoff(time.Hour, time.Hour))
	x = take(t, c)
	x.Fail(errors.New("no"))
	releaseAll(c)
	assert.Equal(t, "y x a b c d e f g h i", takeAll(t, c), "at the end of the news")
}

func TestKeysThatAreOutAreNotPassedOverTwice(t *testing.T) {
	const n = 100
	c := newThings()
	var out []*Queue[*thing]
	for i := range n {
		require.NoError(t, c.Add(at(fmt.Sprint(i), "u", 1)))
		out = append(out, take(t, c))
	}
	for i := range n {
		require.NoError(t, c.Update(at(fmt.Sprint(i), "u", 2)))
	}
	require.NoError(t, c.Add(at("new", "u", 3)))
	assert.Equal(t, "new", take(t, c).Key().Name)
	assert.Equal(t, &c.ready[0], c.ready[0].next, "the next Take has nothing to pass over")
	require.NoError(t, c.Update(at("5", "u", 3)))
	assert.Equal(t, &c.ready[0], c.ready[0].next, "nor has it when more happens to them")
	assert.Equal(t, n, c.Stats().Waiting)
	for _, q := range out {
		q.Done()
	}
	assert.Equal(t, n, c.Stats().Waiting)
}

func TestKeyWhoseTurnCameWhileItWasOutIsNext(t *testing.T) {
	no := errors.New("no")
	for name, row := range map[string]struct {
		settle func(c *Collection[*thing], q map[string]*Queue[*thing])
		want   string
	}{
		"in their order":   {func(_ *Collection[*thing], q map[string]*Queue[*thing]) { q["a"].Done(); q["b"].Done() }, "b a d e"},
		"in another order": {func(_ *Collection[*thing], q map[string]*Queue[*thing]) { q["b"].Done(); q["a"].Done() }, "b a d e"},
		"failed":           {func(_ *Collection[*thing], q map[string]*Queue[*thing]) { q["a"].Fail(no); q["b"].Fail(no) }, "d e"},
		"put back":         {func(_ *Collection[*thing], q map[string]*Queue[*thing]) { q["b"].Done(); q["a"].Release() }, "a b d e"},
		"merged away":      {func(c *Collection[*thing], q map[string]*Queue[*thing]) { q["b"].Done() }, "b d e"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newThings()
			out := map[string]*Queue[*thing]{}
			for _, name := range []string{"a", "b", "c"} {
				require.NoError(t, c.Add(at(name, "u", 1)))
				out[name] = take(t, c)
			}
			require.NoError(t, c.Update(at("b", "u", 2)))
			require.NoError(t, c.Update(at("a", "u", 2)))
			nothingReady(t, c)
			require.NoError(t, c.Add(at("d", "u", 3)))
			require.NoError(t, c.Add(at("e", "u", 3)))
			row.settle(c, out)
			assert.Equal(t, row.want, takeAll(t, c))
		})
	}
}

// A requeued key goes in front of a key that became due while the first one was out.
func TestQueueThatWasPutBackIsInFrontOfThoseThatWerePassed(t *testing.T) {
	for _, back := range []string{"acb", "cab"} {
		c, queues := newThings(WithCompaction(KeepLatest)), map[rune]*Queue[*thing]{}
		for _, name := range "abc" {
			require.NoError(t, c.Add(at(string(name), string(name), 1)))
			queues[name] = take(t, c)
		}
		require.NoError(t, c.Update(at("a", "a", 2)))
		require.NoError(t, c.Update(at("b", "b", 3)))
		q, err := tryTake(c) // passes a and b
		require.NoError(t, err)
		require.Nil(t, q)
		for _, name := range back {
			if name == 'c' {
				queues[name].Release()
			} else {
				queues[name].Done()
			}
		}
		assert.Equal(t, "c a b", takeAll(t, c), back)
	}
}

// reading is an error whose methods use the collection.
type reading struct{ c *Collection[*thing] }

func (reading) Error() string     { return "no" }
func (r reading) Is(error) bool   { return r.c.Len() < 0 }
func (r reading) Unwrap() []error { r.c.Len(); return nil }

func TestErrorOfAHandlerMayUseTheCollection(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "a", 1)))
	q, ended := take(t, c), make(chan struct{})
	go func() { defer close(ended); q.Fail(reading{c}) }()
	within(t, "settling", ended)
	assert.Zero(t, c.Stats().Panics)
}
