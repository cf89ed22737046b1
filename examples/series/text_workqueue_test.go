package series_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

// twoWorkers adds one key twice, the second time while a worker has it. It returns how often workers
// began, and how many of them worked on the key at once.
func twoWorkers(t *testing.T, queue func() (add func(key string), run func(ctx context.Context, work func()))) (calls, atOnce int) {
	synctest.Test(t, func(t *testing.T) {
		add, run := queue() // in the bubble
		var mu sync.Mutex
		now := 0
		work := func() {
			mu.Lock()
			calls++
			now++
			atOnce = max(atOnce, now)
			mu.Unlock()
			<-time.After(time.Minute)
			mu.Lock()
			now--
			mu.Unlock()
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { run(ctx, work) })
		add("web")
		synctest.Wait() // a worker has the key
		add("web")
		<-time.After(time.Hour)
		stop()
		running.Wait()
	})
	return calls, atOnce
}

func TestTextTwoWorkersWorkOnOneKeyWithoutTheDirtySet(t *testing.T) {
	type work = func(ctx context.Context, work func())
	t.Run("a channel of keys", func(t *testing.T) {
		calls, atOnce := twoWorkers(t, func() (func(string), work) {
			keys := make(chan string, 2)
			return func(key string) { keys <- key }, func(ctx context.Context, work func()) {
				var working sync.WaitGroup
				for range 2 {
					working.Go(func() {
						for range keys {
							work()
						}
					})
				}
				<-ctx.Done()
				close(keys)
				working.Wait()
			}
		})
		assert.Equal(t, 2, calls)
		assert.Equal(t, 2, atOnce, "both write the object at once")
	})
	t.Run("the model", func(t *testing.T) {
		calls, atOnce := twoWorkers(t, func() (func(string), work) {
			keys := series.NewWorkQueue[string]()
			return keys.Add, func(ctx context.Context, work func()) {
				var working sync.WaitGroup
				for range 2 {
					working.Go(func() {
						for key, ok := keys.Get(); ok; key, ok = keys.Get() {
							work()
							keys.Done(key)
						}
					})
				}
				<-ctx.Done()
				keys.ShutDown()
				working.Wait()
			}
		})
		assert.Equal(t, 2, calls)
		assert.Equal(t, 1, atOnce)
	})
	t.Run("the library", func(t *testing.T) {
		calls, atOnce := twoWorkers(t, func() (func(string), work) {
			keys := eventqueue.New(func(key store.Key) (store.Key, error) { return key, nil })
			return func(key string) { eventqueue.Add(keys, store.Key{Name: key}) }, func(ctx context.Context, work func()) {
				defer keys.Close()
				keys.Process(ctx, 2, func(context.Context, *eventqueue.Queue[store.Key]) error { work(); return nil }, nil)
			}
		})
		assert.Equal(t, 2, calls)
		assert.Equal(t, 1, atOnce)
	})
}

func TestTextAFailedKeyIsRetriedWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := series.NewWorkQueue[string]()
		keys.Add("web")
		begin := time.Now()
		var tries []time.Duration
		for range 4 {
			key, _ := keys.Get()
			tries = append(tries, time.Since(begin))
			keys.Retry(key)
			keys.Done(key)
		}
		assert.Equal(t, []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 35 * time.Millisecond}, tries)
		keys.Forget("web")
		keys.ShutDown()
		<-time.After(time.Minute) // the last retry
	})
}
