package eventqueue

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests hold queue-E11.

// attempts returns when the queues of a come within a time, if each attempt takes a second and
// fails. The function during runs in each attempt.
func attempts(t *testing.T, c *Collection[*thing], within time.Duration, during func()) []time.Duration {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var all []time.Duration
	begin := time.Now()
	c.Process(ctx, 1, func(context.Context, *Queue[*thing]) error {
		all = append(all, time.Since(begin))
		during()
		<-time.After(time.Second)
		return errNo
	}, nil)
	return all
}

func TestEventDuringAFailedAttemptDoesNotShortenItsBackoff(t *testing.T) {
	version := 1
	for name, during := range map[string]func(c *Collection[*thing]){
		"a modification": func(c *Collection[*thing]) { version++; _ = c.Update(at("a", "u", version)) },
		"a relist": func(c *Collection[*thing]) {
			version++
			_ = c.Replace([]*thing{at("a", "u", version)}, fmt.Sprint(version))
		},
		"another object": func(c *Collection[*thing]) { version++; _ = c.Update(at("a", fmt.Sprint(version), version)) },
		"a deletion":     func(c *Collection[*thing]) { version++; _ = c.Delete(at("a", "u", version)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := opened(t, WithCompaction(KeepLatest), WithBackoff(10*time.Second, time.Minute))
				put(t, c, at("a", "u", 1))
				all := attempts(t, c, time.Minute, func() { during(c) })
				require.GreaterOrEqual(t, len(all), 2)
				assert.Less(t, len(all), 7)
				assert.GreaterOrEqual(t, all[1]-all[0], 6*time.Second, "an attempt, and half of the back-off")
			})
		})
	}
}

func TestEventHastensARetryOnceInABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, WithBackoff(time.Hour, 4*time.Hour))
		put(t, c, at("a", "u", 1))
		take(t, c).Fail(errNo)
		end := time.Now().Add(c.Pending(1)[0].RetryIn)
		pass(time.Minute)
		put(t, c, at("a", "u", 2))
		take(t, c).Fail(errNo)
		put(t, c, at("a", "u", 3))
		nothingReady(t, c)
		require.Equal(t, end, time.Now().Add(c.Pending(1)[0].RetryIn), "the end stays")
		pass(time.Until(end))
		q := take(t, c)
		assert.Equal(t, "3", q.Newest().Object.version, "no event is lost")
		assert.Equal(t, 3, q.Attempt())
		q.Fail(errNo)
		assert.GreaterOrEqual(t, c.Pending(1)[0].RetryIn, 2*time.Hour, "each failure makes the next back-off longer")
		put(t, c, at("a", "u", 4))
		take(t, c).Done()
		put(t, c, at("a", "u", 5))
		take(t, c).Fail(errNo)
		put(t, c, at("a", "u", 6))
		take(t, c).Done() // a success ends all that
	})
}

func TestObjectThatChangesAllTheTimeIsRetriedAtMostTwiceInABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, WithCompaction(KeepLatest), WithBackoff(time.Minute, time.Minute))
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for version := 1; ; version++ {
				_ = c.Update(at("a", "u", version))
				select {
				case <-time.After(100 * time.Millisecond):
				case <-stop:
					return
				}
			}
		}()
		all := attempts(t, c, time.Hour, func() {})
		close(stop)
		<-ended
		assert.LessOrEqual(t, len(all), 2*120+2, "the back-off is at least half a minute")
	})
}

func TestReportedRetryOfAHastenedAttemptIsTheRestOfTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, WithBackoff(time.Hour, time.Hour))
		put(t, c, at("a", "u", 1))
		var ends []time.Time
		fail := func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.Process(ctx, 1, func(context.Context, *Queue[*thing]) error { return errNo }, func(_ context.Context, err *HandlerError) {
				ends = append(ends, time.Now().Add(err.RetryIn))
				cancel()
			})
		}
		fail()
		pass(time.Minute)
		put(t, c, at("a", "u", 2))
		fail()
		assert.Equal(t, ends[0], ends[1])
		assert.Equal(t, ends[0], time.Now().Add(c.Pending(1)[0].RetryIn))
	})
}

// A resync adds keys that are not live and have no delay.
func TestKeyThatIsNotLiveWaitsForTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys(WithBackoff(time.Hour, time.Hour))
		defer c.Close()
		Add(c, key("a"))
		tryTakeKey(t, c).Fail(errNo)
		AddResync(c, key("a"))
		assert.Nil(t, tryTakeKey(t, c))
		AddAfter(c, key("a"), time.Minute)
		pass(time.Minute)
		tryTakeKey(t, c).Fail(errNo) // a delay ended earlier than the back-off
		AddAfter(c, key("a"), time.Minute)
		Add(c, key("a"))
		pass(time.Minute)
		assert.Nil(t, tryTakeKey(t, c), "once in a back-off")
		pass(time.Hour)
		assert.NotNil(t, tryTakeKey(t, c))
	})
}

func TestKeyWithADelayThatIsAddedAgainWaitsSinceThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newKeys()
		defer c.Close()
		AddAfter(c, store.Key{Name: "a"}, time.Hour)
		Add(c, store.Key{Name: "a"})
		pass(time.Minute)
		q := tryTakeKey(t, c)
		assert.Equal(t, time.Minute, q.Waited())
		assert.Equal(t, time.Minute, c.Stats().Oldest)
	})
}

// A report may take long, as that of an event recorder does.
func TestReportThatOutlastsTheBackoffBeginsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, WithBackoff(10*time.Second, 10*time.Second))
		put(t, c, at("a", "u", 1))
		ctx, cancel := context.WithCancel(t.Context())
		var attempts, promised []time.Time
		var reported time.Time
		c.Process(ctx, 1, func(context.Context, *Queue[*thing]) error {
			if attempts = append(attempts, time.Now()); len(attempts) == 3 {
				cancel()
			}
			return errNo
		}, func(_ context.Context, err *HandlerError) {
			promised = append(promised, time.Now().Add(err.RetryIn))
			switch err.Attempt {
			case 1:
				time.AfterFunc(err.RetryIn-time.Millisecond, func() { _ = c.Update(at("a", "u", 2)) })
			case 2:
				<-time.After(time.Second)
				reported = time.Now()
			}
		})
		require.Len(t, attempts, 3)
		assert.Equal(t, promised[0].Add(-time.Millisecond), attempts[1])
		assert.Equal(t, promised[0], promised[1])
		assert.Equal(t, reported, attempts[2], "the back-off is over")
	})
}

// The sum of a time and a longer one would be an earlier time.
func TestLongestBackoffIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, WithBackoff(math.MaxInt64, math.MaxInt64))
		put(t, c, at("a", "u", 1))
		take(t, c).Fail(errNo)
		nothingReady(t, c)
		assert.Greater(t, c.Pending(1)[0].RetryIn, maxDelay/3)
		assert.LessOrEqual(t, c.Pending(1)[0].RetryIn, time.Duration(maxDelay))
	})
}
