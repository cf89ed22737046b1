package series

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

// modelQueue is a collection with the known objects that it follows.
type modelQueue struct {
	*EventQueueCollection[pod]
	known *Map[pod]
	heard []Event[pod]
}

func newModelQueue(known ...pod) *modelQueue {
	q := &modelQueue{known: &Map[pod]{}}
	_ = q.known.Replace(known, "")
	q.EventQueueCollection = NewEventQueueCollection(q.known)
	return q
}

func (q *modelQueue) pop(t *testing.T) *EventQueue[pod] {
	t.Helper()
	queue, err := q.Pop(t.Context())
	assert.NoError(t, err)
	return queue
}

func (q *modelQueue) process(t *testing.T, queue *EventQueue[pod]) {
	t.Helper()
	assert.NoError(t, Track(q.known, func(event Event[pod]) { q.heard = append(q.heard, event) })(queue))
}

// newLibraryQueue returns a collection whose consumer knows some pods.
func newLibraryQueue(t *testing.T, known ...pod) *eventqueue.Collection[pod] {
	t.Helper()
	c := eventqueue.New(store.ObjectKey[pod])
	for _, p := range known {
		assert.NoError(t, c.Add(p))
		take(t, c).Done()
	}
	return c
}

func take(t *testing.T, c *eventqueue.Collection[pod]) *eventqueue.Queue[pod] {
	t.Helper()
	queue, err := c.Take(t.Context())
	assert.NoError(t, err)
	return queue
}

var web = store.Key{Namespace: "default", Name: "web"}

// A pod is deleted. Before a consumer hears of it, a list has a new pod of the same name.
func TestPart04ARecreationThatAListFindsIsLost(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		pods := newModelQueue(newPod("web", "1"))
		_ = pods.Delete(newPod("web", "2"))
		_ = pods.Replace([]pod{newPod("web", "3")}, "3")
		pods.process(t, pods.pop(t))
		assert.Empty(t, pods.known.List(), "although the server has a pod")
	})
	t.Run("the library", func(t *testing.T) {
		pods := newLibraryQueue(t, newPod("web", "1"))
		_ = pods.Delete(newPod("web", "2"))
		_ = pods.Replace([]pod{newPod("web", "3")}, "3")
		assert.Equal(t, 1, pods.Cache().Len())
		queue := take(t, pods)
		defer queue.Done()
		assert.Equal(t, eventqueue.Addition, queue.Newest().Type)
	})
}

// A pod is added and deleted, and a list without it comes before a consumer hears of the pod.
func TestPart04AnObjectThatAListLacksBecomesAGhost(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		pods := newModelQueue()
		_ = pods.Add(newPod("web", "1"))
		_ = pods.Replace(nil, "2")
		pods.process(t, pods.pop(t))
		assert.Len(t, pods.known.List(), 1, "although the server has none")
	})
	t.Run("the library", func(t *testing.T) {
		pods := newLibraryQueue(t)
		_ = pods.Add(newPod("web", "1"))
		_ = pods.Replace(nil, "2")
		assert.Zero(t, pods.Cache().Len())
		assert.Zero(t, pods.Len(), "and no consumer hears of it")
	})
}

// A pod changes a thousand times before a consumer hears of it.
func TestPart04AThousandChangesAreAThousandEvents(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		pods := newModelQueue()
		for version := range 1000 {
			_ = pods.Update(newPod("web", strconv.Itoa(version+1)))
		}
		assert.Len(t, pods.pop(t).Events, 1000)
	})
	t.Run("the library", func(t *testing.T) {
		pods := newLibraryQueue(t)
		for version := range 1000 {
			_ = pods.Update(newPod("web", strconv.Itoa(version+1)))
		}
		queue := take(t, pods)
		defer queue.Done()
		assert.Equal(t, 1, queue.Len())
		assert.Equal(t, "1000", queue.Newest().Object.ResourceVersion)
	})
}

// The deletion of a pod is reported twice.
func TestPart04ADeletionIsDeliveredTwice(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		pods := newModelQueue(newPod("web", "1"))
		_ = pods.Delete(newPod("web", "2"))
		_ = pods.Delete(newPod("web", "2"))
		pods.process(t, pods.pop(t))
		assert.Len(t, pods.heard, 2)
	})
	t.Run("the library", func(t *testing.T) {
		pods := newLibraryQueue(t, newPod("web", "1"))
		_ = pods.Delete(newPod("web", "2"))
		_ = pods.Delete(newPod("web", "2"))
		queue := take(t, pods)
		defer queue.Done()
		assert.Equal(t, 1, queue.Len())
	})
}

// A consumer has taken the only object of the first list, but not handled it.
func TestPart04SyncedIsTooEarly(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		pods := newModelQueue()
		_ = pods.Replace([]pod{newPod("web", "1")}, "1")
		pods.pop(t)
		assert.True(t, pods.HasSynced())
	})
	t.Run("the library", func(t *testing.T) {
		pods := newLibraryQueue(t)
		_ = pods.Replace([]pod{newPod("web", "1")}, "1")
		queue := take(t, pods)
		select {
		case <-pods.Synced():
			t.Error("synced before the object was handled")
		default:
		}
		queue.Done()
		<-pods.Synced()
	})
}

// While a consumer handles version 2, the collection resyncs.
func TestPart04AnOldStateComesBack(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		pods := newModelQueue(newPod("web", "1"))
		_ = pods.Update(newPod("web", "2"))
		queue := pods.pop(t)
		_ = pods.Resync() // version 2 neither waits nor is known, so this repeats version 1
		pods.process(t, queue)
		pods.process(t, pods.pop(t))
		now, _ := pods.known.GetByKey("default/web")
		assert.Equal(t, "1", now.ResourceVersion)
	})
	t.Run("the library", func(t *testing.T) {
		pods := newLibraryQueue(t, newPod("web", "1"))
		_ = pods.Update(newPod("web", "2"))
		queue := take(t, pods)
		pods.Resync()
		queue.Done()
		assert.Zero(t, pods.Len(), "the consumer has heard of version 2, which is news enough")
		now, _ := pods.Cache().Get(web)
		assert.Equal(t, "2", now.ResourceVersion)
	})
}

// Pop waits for an object, and ends with its context.
func TestPart04PopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newModelQueue()
		popped := make(chan string, 1)
		go func() { popped <- pods.pop(t).Key }()
		synctest.Wait()
		assert.Empty(t, popped)
		_ = pods.Add(newPod("web", "1"))
		assert.Equal(t, "default/web", <-popped)

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := pods.Pop(ctx); ended <- err }()
		synctest.Wait()
		stop()
		assert.ErrorIs(t, <-ended, context.Canceled)
	})
}
