package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests hold queue-E10, and the work queues of the package documentation.

func newKeys(opts ...Option) *Collection[store.Key] {
	return New(func(key store.Key) (store.Key, error) { return key, nil }, opts...)
}

// readyKeys takes and acknowledges the keys that are ready, in their order.
func readyKeys(t *testing.T, c *Collection[store.Key]) string {
	synctest.Wait() // for a delay that just ended
	var names []string
	for {
		q := tryTakeKey(t, c)
		if q == nil {
			return strings.Join(names, " ")
		}
		names = append(names, q.Key().Name)
		q.Done()
	}
}

func tryTakeKey(t *testing.T, c *Collection[store.Key]) *Queue[store.Key] {
	q, err := tryTake(c)
	require.NoError(t, err)
	return q
}

func pass(d time.Duration) { <-time.After(d); synctest.Wait() }

func TestAddAfterMakesAKeyReadyAtTheEarliestTime(t *testing.T) {
	type add struct {
		name  string
		after time.Duration
	}
	for name, row := range map[string]struct {
		adds []add
		want map[time.Duration]string // the ready keys, by the time
	}{
		"at once":           {[]add{{"a", 0}, {"b", -1}}, map[time.Duration]string{0: "a b"}},
		"later":             {[]add{{"a", 2 * time.Second}, {"b", time.Second}}, map[time.Duration]string{time.Second: "b", 2 * time.Second: "a"}},
		"earlier than said": {[]add{{"a", time.Minute}, {"a", time.Second}, {"a", time.Hour}}, map[time.Duration]string{time.Second: "a"}},
		"now after all":     {[]add{{"a", time.Minute}, {"a", 0}}, map[time.Duration]string{0: "a"}},
		"ready already":     {[]add{{"a", 0}, {"a", time.Minute}}, map[time.Duration]string{0: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newKeys()
				defer c.Close()
				for _, a := range row.adds {
					AddAfter(c, key(a.name), a.after)
				}
				var passed time.Duration
				for _, at := range slices.Sorted(maps.Keys(row.want)) {
					if at > 0 {
						pass(at - passed - 1)
						assert.Empty(t, readyKeys(t, c), "before %v", at)
						pass(1)
					}
					passed = at
					assert.Equal(t, row.want[at], readyKeys(t, c), "at %v", at)
				}
				assert.Zero(t, c.Len())
			})
		})
	}
}

func TestKeyThatIsAddedWhileItIsOutComesAgain(t *testing.T) {
	for name, row := range map[string]struct {
		delay  time.Duration
		settle func(q *Queue[store.Key])
		again  time.Duration
	}{
		"at once, Done":              {0, (*Queue[store.Key]).Done, 0},
		"at once, Fail":              {0, func(q *Queue[store.Key]) { q.Fail(errNo) }, 24 * time.Hour},
		"later, Done":                {time.Minute, (*Queue[store.Key]).Done, time.Minute},
		"later than back-off, Fail":  {48 * time.Hour, func(q *Queue[store.Key]) { q.Fail(errNo) }, 24 * time.Hour},
		"before the back-off, Fail":  {time.Minute, func(q *Queue[store.Key]) { q.Fail(errNo) }, time.Minute},
		"later, Fail for good":       {time.Minute, func(q *Queue[store.Key]) { q.Fail(Permanent(errNo)) }, time.Minute},
		"later, Release":             {time.Minute, (*Queue[store.Key]).Release, 0},
		"later, Done after the time": {time.Second, func(q *Queue[store.Key]) { pass(time.Minute); q.Done() }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newKeys(WithBackoff(24*time.Hour, 24*time.Hour))
				defer c.Close()
				Add(c, key("a"))
				q := tryTakeKey(t, c)
				begin := time.Now()
				if row.delay == 0 {
					AddResync(c, key("a"))
				} else {
					AddAfter(c, key("a"), row.delay)
				}
				assert.Nil(t, tryTakeKey(t, c), "it is out")
				row.settle(q)
				next, err := c.Take(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, next.Len())
				if took := time.Since(begin); row.again == 24*time.Hour { // half of it is random
					assert.True(t, row.again/2 <= took && took <= row.again, took)
				} else {
					assert.Equal(t, row.again, took)
				}
			})
		})
	}
}

func TestLiveKeysComeFirst(t *testing.T) {
	c := newKeys()
	defer c.Close()
	AddResync(c, key("a"))
	AddResync(c, key("b"))
	Add(c, key("c"))
	AddResync(c, key("d"))
	Add(c, key("d"))
	AddResync(c, key("c")) // it stays live
	var got []string
	for range 4 {
		q := tryTakeKey(t, c)
		got = append(got, fmt.Sprint(q.Key().Name, " ", q.Newest().Origin))
		q.Done()
	}
	assert.Equal(t, []string{"c Watch", "d Watch", "a Resync", "b Resync"}, got)
	assert.EqualValues(t, 2, c.Stats().Merged)
}

func TestDelayedKeysAreNeitherDrainedNorOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys(WithBackoff(time.Hour, time.Hour))
		AddAfter(c, key("later"), time.Minute)
		assert.NoError(t, c.Drain(t.Context()))
		assert.NoError(t, c.Left(nil))
		s := c.Stats()
		assert.Equal(t, Stats{Keys: 1, Waiting: 1, Delayed: 1, Events: 1}, s)
		assert.Equal(t, []Pending{{Key: key("later"), Events: 1, RetryIn: time.Minute}}, c.Pending(1))

		pass(2 * time.Minute)
		assert.Equal(t, time.Minute, c.Stats().Oldest, "since it was due")
		tryTakeKey(t, c).Fail(errNo)
		assert.ErrorIs(t, c.Drain(t.Context()), errNo, "a failed key remains")

		c.Close()
		Add(c, key("late"))
		assert.Zero(t, c.Len())
	})
}

// The clock of a bubble begins before the program does, so that no sum overflows there.
func TestLongestDelayIsNoTimeInThePast(t *testing.T) {
	c := newKeys()
	defer c.Close()
	AddAfter(c, key("a"), math.MaxInt64)
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Greater(t, c.delayed[0].due, now())
}

// A write makes a delayed key ready, and its event waits from then on.
func TestWriteOfADelayedKeyWaitsSinceTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys()
		defer c.Close()
		AddAfter(c, key("a"), time.Hour)
		pass(time.Minute)
		require.NoError(t, c.Add(key("a")))
		pass(time.Minute)
		assert.Equal(t, time.Minute, c.Stats().Oldest)
	})
}

// keyModel is what AddAfter and the ways to settle say of one key.
type keyModel struct {
	waits, live bool
	due         time.Time
	out         *Queue[store.Key]
	outLive     bool
	failures    int
	step        time.Time // the end of the last back-off
	hastened    bool      // the key was taken before that
}

// added is an addition: at once or after a delay.
func (m *keyModel) added(delay time.Duration, live bool) {
	now := time.Now()
	due := now.Add(delay)
	switch backsOff := m.out == nil && m.failures > 0 && m.due.After(now); {
	case m.waits && !due.Before(m.due), backsOff && (m.hastened || delay == 0 && !live):
	default:
		m.due = due
	}
	m.waits, m.live = true, m.live || live
}

// TestCollectionOfKeysAgainstAModel runs random histories of additions, delays and ways to settle.
func TestCollectionOfKeysAgainstAModel(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { runKeys(t, seed) })
	}
}

func runKeys(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	c := newKeys(WithBackoff(time.Hour, time.Hour), WithPriority(seed%2 == 0))
	defer c.Close()
	model := map[string]*keyModel{"a": {}, "b": {}, "c": {}}
	names := slices.Sorted(maps.Keys(model))
	take := func() {
		q := tryTakeKey(t, c)
		if q == nil {
			for name, m := range model {
				require.False(t, m.waits && m.out == nil && !m.due.After(time.Now()), "seed %d: %s is ready", seed, name)
			}
			return
		}
		m := model[q.Key().Name]
		require.True(t, m.waits && m.out == nil && !m.due.After(time.Now()), "seed %d: %v is not ready", seed, q.Key())
		require.Equal(t, 1, q.Len())
		require.Equal(t, m.failures+1, q.Attempt())
		require.Equal(t, m.live, q.Newest().Origin == Watch)
		if m.failures > 0 && time.Now().Before(m.step) {
			require.False(t, m.hastened, "seed %d: %v comes twice in one back-off", seed, q.Key())
			m.hastened = true
		}
		m.out, m.outLive, m.waits, m.live = q, m.live, false, false
	}
	for range 200 {
		name := names[random.IntN(len(names))]
		m := model[name]
		switch op := random.IntN(10); {
		case op < 3:
			delay := time.Duration(random.IntN(3)) * 40 * time.Minute
			live := random.IntN(2) == 0 || delay > 0
			switch {
			case delay > 0:
				AddAfter(c, key(name), delay)
			case live:
				Add(c, key(name))
			default:
				AddResync(c, key(name))
			}
			m.added(delay, live)
		case op < 5:
			take()
		case op == 5:
			pass(time.Duration(random.IntN(60)) * time.Minute)
		case m.out == nil:
		case op < 8:
			m.out.Done()
			m.out, m.failures, m.hastened = nil, 0, false
		case op == 8:
			m.out.Fail(errNo)
			m.failures++
			k := c.keys[key(name)]
			if end := time.Now().Add(k.backoffEnd - now()); m.failures == 1 || !m.step.After(time.Now()) {
				wait := time.Until(end)
				require.True(t, 30*time.Minute <= wait && wait <= time.Hour, "seed %d: %v", seed, wait)
				m.step, m.hastened = end, false
			} else {
				require.Equal(t, m.step, end, "seed %d: the end stays", seed)
			}
			// What was added during the attempt changes nothing, except for a delay that still runs.
			if !m.waits || !m.due.After(time.Now()) || m.due.After(m.step) || m.hastened {
				m.due = m.step
			}
			m.out, m.waits, m.live = nil, true, m.live || m.outLive
		default:
			m.out.Release()
			m.out, m.waits, m.due, m.live = nil, true, time.Now(), m.live || m.outLive
			m.hastened = false // the attempt begins again
		}
		want := Stats{}
		for _, m := range model {
			if m.waits {
				want.Waiting++
				want.Events++
			}
			if m.out != nil {
				want.InFlight++
				want.Events++
			}
			if m.waits || m.out != nil {
				want.Keys++
			}
			if m.waits && m.due.After(time.Now()) {
				want.Delayed++
			}
		}
		have := c.Stats()
		require.Equal(t, want, Stats{Keys: have.Keys, Waiting: have.Waiting, InFlight: have.InFlight, Events: have.Events, Delayed: have.Delayed}, "seed %d", seed)
	}
	for _, m := range model {
		if m.out != nil {
			m.out.Done()
			m.out, m.failures = nil, 0
		}
	}
	pass(2 * time.Hour)
	for range model {
		take()
	}
	for name, m := range model {
		require.False(t, m.waits, "seed %d: %s was lost", seed, name)
	}
}

// processKeys handles keys with one worker until stop is called.
func processKeys(t *testing.T, c *Collection[store.Key], fn func(*Queue[store.Key]) error, report func(*HandlerError)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Process(ctx, 1, func(_ context.Context, q *Queue[store.Key]) error { return fn(q) },
			func(_ context.Context, err *HandlerError) { report(err) })
	}()
	return func() { cancel(); <-ended }
}

func TestHeldKeyComesAgainWhenItsHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys(WithBackoff(time.Second, time.Second))
		defer c.Close()
		until, got := make(chan struct{}), ""
		var attempts []int
		stop := processKeys(t, c, func(q *Queue[store.Key]) error {
			got += q.Key().Name
			if q.Key().Name != "a" {
				return nil
			}
			switch attempts = append(attempts, q.Attempt()); len(attempts) {
			case 1:
				return errors.New("ouch")
			case 2:
				q.Hold(until)
			}
			return nil
		}, func(*HandlerError) {})
		defer stop()
		Add(c, store.Key{Name: "a"})
		pass(time.Minute)
		Add(c, store.Key{Name: "a"})
		Add(c, store.Key{Name: "b"})
		pass(time.Minute)
		assert.Equal(t, "aab", got, "other keys go on")
		assert.Equal(t, 1, c.Stats().InFlight)
		assert.Equal(t, 1, c.Stats().Held)
		close(until)
		require.NoError(t, c.Drain(t.Context()))
		assert.Zero(t, c.Stats().Held)
		assert.Equal(t, "aaba", got)
		assert.Equal(t, []int{1, 2, 2}, attempts, "a hold is neither a failure nor a success")
		assert.Zero(t, c.Len())
	})
}

func TestKeysThatWaitForOneChannelShareAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys()
		defer c.Close()
		until, calls := make(chan struct{}), 0
		stop := processKeys(t, c, func(q *Queue[store.Key]) error {
			calls++
			if !isClosed(until) {
				q.Hold(until)
			}
			return nil
		}, nil)
		defer stop()
		before := runtime.NumGoroutine()
		for n := range 1000 {
			Add(c, store.Key{Name: strconv.Itoa(n)})
		}
		synctest.Wait()
		assert.Equal(t, 1000, calls)
		assert.Equal(t, 1000, c.Stats().InFlight)
		assert.Less(t, runtime.NumGoroutine()-before, 100)
		close(until)
		require.NoError(t, c.Drain(t.Context()))
		assert.Equal(t, 2000, calls)
	})
}

func TestHeldKeysComeAgainInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys()
		defer c.Close()
		until, got := make(chan struct{}), ""
		stop := processKeys(t, c, func(q *Queue[store.Key]) error {
			got += q.Key().Name
			switch {
			case q.Key().Name == "z":
				close(until)
				<-time.After(time.Second) // all are back before the worker takes one
			case !isClosed(until):
				q.Hold(until)
			}
			return nil
		}, nil)
		defer stop()
		for _, name := range []string{"c", "a", "b", "z"} {
			Add(c, store.Key{Name: name})
		}
		require.NoError(t, c.Drain(t.Context()))
		assert.Equal(t, "cabzcab", got)
	})
}

func TestHoldEndsWithProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys()
		defer c.Close()
		stop := processKeys(t, c, func(q *Queue[store.Key]) error { q.Hold(make(chan struct{})); return nil }, nil)
		Add(c, store.Key{Name: "a"})
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var left *DrainError
		require.ErrorAs(t, c.Drain(ended), &left)
		assert.True(t, left.Pending[0].InFlight)
		stop()
		require.ErrorAs(t, c.Drain(ended), &left)
		assert.False(t, left.Pending[0].InFlight)
		assert.NoError(t, left.Pending[0].Err)
	})
}

func TestHoldEndsWithTheCollection(t *testing.T) {
	for name, channel := range map[string]func() chan struct{}{
		"a channel": func() chan struct{} { return make(chan struct{}) },
		"nil":       func() chan struct{} { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, until := newKeys(), channel() // in the bubble, so that synctest knows the channel
				defer c.Close()
				Add(c, store.Key{Name: "a"})
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.Process(t.Context(), 1, func(_ context.Context, q *Queue[store.Key]) error { q.Hold(until); return nil }, nil)
				}()
				pass(time.Hour)
				assert.Equal(t, 1, c.Stats().InFlight)
				c.Close()
				synctest.Wait()
				assert.True(t, isClosed(ended))
			})
		})
	}
}

func TestHoldOfAFailedQueueHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys(WithBackoff(time.Second, time.Second))
		defer c.Close()
		calls := 0
		stop := processKeys(t, c, func(q *Queue[store.Key]) error {
			q.Hold(make(chan struct{}))
			if calls++; calls == 3 {
				q.Done()
			}
			return errors.New("ouch")
		}, func(*HandlerError) {})
		defer stop()
		Add(c, store.Key{Name: "a"})
		pass(time.Minute)
		assert.Equal(t, 3, calls)
		assert.Zero(t, c.Len())
	})
}

func TestLoopIgnoresHold(t *testing.T) {
	c := newKeys()
	defer c.Close()
	Add(c, store.Key{Name: "a"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for q := range c.Queues(ctx) {
		q.Hold(make(chan struct{}))
		stop()
	}
	assert.Zero(t, c.Len())
}

func TestReportSaysWhenTheNextTryIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys(WithBackoff(time.Second, time.Minute))
		defer c.Close()
		var due time.Time
		calls := 0
		stop := processKeys(t, c, func(q *Queue[store.Key]) error {
			if calls++; calls > 1 {
				assert.Equal(t, due, time.Now())
			}
			if calls > 5 {
				return Permanent(errors.New("never"))
			}
			return errors.New("not now")
		}, func(err *HandlerError) {
			due = time.Now().Add(err.RetryIn)
			assert.Equal(t, calls <= 5, err.RetryIn > 0)
		})
		defer stop()
		Add(c, store.Key{Name: "a"})
		pass(time.Hour)
		assert.Equal(t, 6, calls)
	})
}

func TestWaitedCountsFromTheEventOrTheEndOfItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys()
		defer c.Close()
		Add(c, store.Key{Name: "a"})
		AddAfter(c, store.Key{Name: "b"}, time.Minute)
		pass(time.Hour)
		for _, want := range []time.Duration{time.Hour, time.Hour - time.Minute} {
			q := tryTakeKey(t, c)
			assert.Equal(t, want, q.Waited())
			q.Done()
		}
	})
}
