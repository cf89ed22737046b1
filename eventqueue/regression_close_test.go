package eventqueue

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
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
		for !c.isClosed() {
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
		for range c.Events(t.Context()) {
			c.mu.Lock()
			others.Go(func() {
				for range 1000 {
					runtime.Gosched() // until the end of the body waits for the lock
				}
				others.Go(c.Close)
				for !c.isClosed() {
					runtime.Gosched()
				}
				c.mu.Unlock()
			})
			others.Go(func() {
				for !c.isClosed() {
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
