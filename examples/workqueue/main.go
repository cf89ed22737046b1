// Program workqueue works off keys with client-go's work queue, and with a collection of this
// library in the same way. Another collection holds events, so that the work knows what changed.
package main

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/client-go/util/workqueue"
)

func main() { cluster.Main(cluster.InMemoryOnly(demo)) }

const firstDelay, longestDelay = 5 * time.Millisecond, time.Minute

// withClientGo calls work for each key until ctx ends. A failed key comes again after a back-off.
func withClientGo(ctx context.Context, keys []store.Key, work func(key store.Key, attempt int) error) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[store.Key](firstDelay, longestDelay))
	defer context.AfterFunc(ctx, queue.ShutDown)()
	for _, key := range keys {
		queue.Add(key)
	}
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := work(key, queue.NumRequeues(key)+1); err != nil {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key) // without this call the key never comes again
	}
}

// withCollection does the same. The error of work decides about the key.
func withCollection(ctx context.Context, keys []store.Key, work func(key store.Key, attempt int) error) {
	queue := eventqueue.New(func(key store.Key) (store.Key, error) { return key, nil },
		eventqueue.WithBackoff(firstDelay, longestDelay))
	defer queue.Close()
	for _, key := range keys {
		eventqueue.Add(queue, key)
	}
	queue.Process(ctx, 1, func(_ context.Context, q *eventqueue.Queue[store.Key]) error {
		return work(q.Key(), q.Attempt())
	}, nil)
}
