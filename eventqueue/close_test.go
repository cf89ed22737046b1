package eventqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// within fails the test if something does not happen at all.
func within[T any](t *testing.T, what string, happened <-chan T) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
}

// heldUp is a follower that holds up each commit until it may go on.
type heldUp struct{ entered, goOn chan struct{} }

func (h *heldUp) Start(*store.Snapshot[*thing]) {}

func (h *heldUp) Commit(*store.Commit[*thing]) { h.entered <- struct{}{}; <-h.goOn }

func TestCloseDoesNotWaitForACommit(t *testing.T) {
	cache := store.New(store.ObjectKey[*thing])
	h := &heldUp{make(chan struct{}), make(chan struct{})}
	defer cache.Follow(h)()
	asked := 0
	c := FollowFiltered(cache, func(*thing) bool { asked++; return true })
	go func() { _ = cache.Replace([]*thing{at("a", "u", 1)}, "1") }()
	within(t, "a commit", h.entered)

	closed := make(chan struct{})
	go func() { defer close(closed); c.Close() }()
	within(t, "Close", closed)
	_, err := c.Take(t.Context())
	require.ErrorIs(t, err, ErrClosed)

	// The commit reaches the collection after Close.
	h.goOn <- struct{}{}
	go func() { _ = cache.Update(at("a", "u", 2)) }()
	within(t, "another commit", h.entered)
	assert.Zero(t, asked, "the predicate is not asked after Close")
	assert.Zero(t, c.Stats())
	assert.True(t, c.buffer.empty())

	gone := weak.Make(c)
	c = nil
	h.goOn <- struct{}{}
	for gone.Value() != nil { // the cache has to forget it
		runtime.Gosched()
		runtime.GC()
	}
}

func TestCloseEndsTheQueueingOfALargeCommit(t *testing.T) {
	c := opened(t, WithCompaction(KeepAll))
	var objects []*thing
	for i := range 100 {
		objects = append(objects, at(strconv.Itoa(i), "u", i+2))
		put(t, c, objects[i])
	}
	asked := 0
	closed := make(chan struct{})
	c.KeepIf(func(Event[*thing]) bool {
		asked++
		go func() { defer close(closed); c.Close() }()
		for !c.IsClosed() {
			runtime.Gosched()
		}
		return true
	})
	for i, o := range objects {
		objects[i] = at(o.name, "u", i+200)
	}
	require.NoError(t, c.Replace(objects, "300"))
	within(t, "Close", closed)
	assert.Equal(t, 1, asked)
	assert.Zero(t, c.Stats().Events)
}

// Close begins while the settlement of a queue waits for the lock. The loop then uses the memory of
// the queue again, so Close must not use it.
func TestCloseUsesNoQueueThatALoopUsesAgain(t *testing.T) {
	for range 300 {
		c := newThings()
		require.NoError(t, c.Replace(nil, "1"))
		put(t, c, at("a", "u", 1))
		var others sync.WaitGroup
		for range c.Consume(t.Context()) {
			c.mu.Lock()
			others.Go(func() {
				for range 1000 {
					runtime.Gosched() // until the end of the body waits for the lock
				}
				others.Go(c.Close)
				for !c.IsClosed() {
					runtime.Gosched()
				}
				c.mu.Unlock()
			})
			others.Go(func() {
				for !c.IsClosed() {
					runtime.Gosched()
				}
				for range 20 {
					c.Pending(5)
				}
			})
		}
		others.Wait()
	}
}

func TestCloseWakesEveryoneAndRefusesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		q := take(t, c)
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				_, err := c.Take(t.Context())
				assert.ErrorIs(t, err, ErrClosed)
			})
		}
		synctest.Wait()
		assert.False(t, c.IsClosed())
		c.Close()
		assert.True(t, c.IsClosed())
		c.Close()
		waiting.Wait()
		for range c.Queues(t.Context()) {
			t.Error("a closed collection handed something out")
		}
		assert.ErrorIs(t, c.Add(at("b", "u", 2)), ErrClosed)
		q.Fail(errors.New("late"))
		assert.Zero(t, c.Len())
		assert.NoError(t, c.Drain(t.Context()))
	})
}

func TestCloseBetweenTwoEventsOfAQueue(t *testing.T) {
	c := newThings()
	require.NoError(t, c.Add(at("a", "u", 1)))
	require.NoError(t, c.Add(at("a", "u", 2)))
	calls := 0
	err := take(t, c).Each(t.Context(), func(Event[*thing]) error {
		calls++
		c.Close()
		return nil
	})
	assert.ErrorIs(t, err, ErrClosed)
	assert.Equal(t, 1, calls)
}

func TestEventInTheBufferDoesNotOutliveClose(t *testing.T) {
	c := synced(t)
	require.NoError(t, c.Update(at("a", "u", 2)))
	c.Close()
	assert.True(t, c.buffer.empty())
	assert.Zero(t, c.Stats())
	_, err := c.Take(t.Context())
	assert.ErrorIs(t, err, ErrClosed)
}

func TestDrainWaitsForWhatIsReadyAndOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		for i := range 5 {
			require.NoError(t, c.Add(at(fmt.Sprint(i), "u", i+1)))
		}
		done := 0
		stop := processing(t, c, 1, func(context.Context, *Queue[*thing]) error {
			<-time.After(time.Second)
			done++
			return nil
		})
		assert.NoError(t, c.Drain(t.Context()))
		assert.Equal(t, 5, done)
		stop()
	})
}

func TestDrainWaitsForTheLastOneThatIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		require.NoError(t, c.Add(at("a", "u", 1)))
		q := take(t, c)
		drained := make(chan error, 1)
		go func() { drained <- c.Drain(t.Context()) }()
		synctest.Wait()
		assert.Empty(t, drained, "nothing is ready, but something is out")
		q.Done()
		assert.NoError(t, <-drained)
	})
}

func TestDrainEndsWithTheCollectionOrWhenNothingIsLeft(t *testing.T) {
	for name, end := range map[string]func(*Collection[*thing]) error{
		"closed":      func(c *Collection[*thing]) error { c.Close(); return nil },
		"merged away": func(c *Collection[*thing]) error { return c.Delete(at("b", "v", 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := synced(t, WithCompaction(KeepLatest)) // so that events go into the buffer while no Drain runs
				require.NoError(t, c.Add(at("b", "v", 2)))
				drained := make(chan error, 1)
				go func() { drained <- c.Drain(t.Context()) }()
				synctest.Wait()
				require.NoError(t, end(c))
				assert.NoError(t, <-drained)
				assert.True(t, c.IsClosed() || c.bypass.Load() == 0, "no Drain runs any more")
			})
		})
	}
}

func TestDrainReportsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings(WithBackoff(time.Hour, time.Hour))
		no := errors.New("no")
		require.NoError(t, c.Add(at("bad", "u", 1)))
		stop := processing(t, c, 1, func(_ context.Context, q *Queue[*thing]) error {
			if q.Key().Name == "bad" {
				return no
			}
			<-time.After(time.Hour)
			return nil
		})
		err := c.Drain(t.Context())
		assert.ErrorIs(t, err, no)
		assert.EqualError(t, err, `1 key(s) left undone; "bad": 1 event(s), failed: no`)
		assert.ErrorIs(t, c.Left(context.DeadlineExceeded), context.DeadlineExceeded, "the caller knows why")

		require.NoError(t, c.Add(at("slow", "u", 2)))
		require.NoError(t, c.Add(at("waiting", "u", 3)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = c.Drain(ctx)
		var left *DrainError
		require.ErrorAs(t, err, &left)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		for i := range left.Pending {
			left.Pending[i].Age, left.Pending[i].RetryIn = 0, 0
		}
		assert.Equal(t, []Pending{
			{Key: key("bad"), Events: 1, Failures: left.Pending[0].Failures, Err: no},
			{Key: key("slow"), Events: 1, InFlight: true},
			{Key: key("waiting"), Events: 1},
		}, left.Pending)
		stop()

		// The handler of slow has ended since.
		left = c.Left(no).(*DrainError)
		assert.Equal(t, no, left.Cause)
		require.Len(t, left.Pending, 2)
		assert.Equal(t, []store.Key{key("bad"), key("waiting")}, []store.Key{left.Pending[0].Key, left.Pending[1].Key})
		c.Close()
		assert.NoError(t, c.Left(no), "a closed collection holds no events")
	})
}
