package series_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/util/workqueue"
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

// withClientGo works off keys with client-go's work queue until ctx ends. A failed key comes again after a back-off.
func withClientGo(ctx context.Context, keys []string, work func(key string, attempt int) error) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Minute))
	defer context.AfterFunc(ctx, queue.ShutDown)()
	for _, key := range keys {
		queue.Add(key)
	}
	for key, shutdown := queue.Get(); !shutdown; key, shutdown = queue.Get() {
		if err := work(key, queue.NumRequeues(key)+1); err != nil {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key) // without this call the key never comes again
	}
}

// withModel does the same. The small type has no method that counts the attempts.
func withModel(ctx context.Context, keys []string, work func(key string, attempt int) error) {
	queue, failures := series.NewWorkQueue[string](), map[string]int{}
	defer context.AfterFunc(ctx, queue.ShutDown)()
	for _, key := range keys {
		queue.Add(key)
	}
	for key, ok := queue.Get(); ok; key, ok = queue.Get() {
		if err := work(key, failures[key]+1); err != nil {
			failures[key]++
			queue.Retry(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// withLibrary does the same with a collection of keys. The error of work decides about the key.
func withLibrary(ctx context.Context, keys []string, work func(key string, attempt int) error) {
	queue := eventqueue.New(func(key store.Key) (store.Key, error) { return key, nil },
		eventqueue.WithBackoff(5*time.Millisecond, time.Minute))
	defer queue.Close()
	for _, key := range keys {
		eventqueue.Add(queue, store.Key{Name: key})
	}
	queue.Process(ctx, 1, func(_ context.Context, q *eventqueue.Queue[store.Key]) error {
		return work(q.Key().Name, q.Attempt())
	}, nil)
}

func TestTextAKeyIsMergedAndRetriedAsByClientGo(t *testing.T) {
	for _, queue := range []struct {
		name string
		run  func(ctx context.Context, keys []string, work func(key string, attempt int) error)
	}{{"client-go", withClientGo}, {"the model", withModel}, {"the library", withLibrary}} {
		t.Run(queue.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				var done []string
				queue.run(ctx, []string{"till", "till", "stock", "till"}, func(key string, attempt int) error {
					done = append(done, fmt.Sprint(key, attempt))
					if key == "till" && attempt == 1 {
						return errors.New("busy")
					}
					return nil
				})
				assert.Equal(t, []string{"till1", "stock1", "till2"}, done)
			})
		})
	}
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
