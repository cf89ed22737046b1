package series

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

// The server fails on five requests in a row for a watch.
func TestPart01EachFailureIsAnotherList(t *testing.T) {
	fail := func(t *testing.T, ctx context.Context, w world, run func(context.Context)) int {
		w.create(t, "web")
		ctx, stop := context.WithTimeout(ctx, 2*time.Hour) // long enough for each watch to end
		defer stop()
		var running sync.WaitGroup
		running.Go(func() { run(ctx) })
		<-time.After(time.Second)
		failures := w.Inject(reflectortest.Answer(http.StatusInternalServerError).On("watch", "pods").Times(5))
		running.Wait()
		assert.Equal(t, 5, failures.Hits())
		return w.requestsForAllObjects()
	}
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		r := NewReflector(FromClient(w.pods), &Map[pod]{})
		assert.Equal(t, 6, fail(t, ctx, w, r.Run))
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		r := reflector.New(w.pods, store.New(store.ObjectKey[pod]))
		assert.Equal(t, 1, fail(t, ctx, w, func(ctx context.Context) { assert.NoError(t, r.Run(ctx)) }))
	})
}

// The store rejects a pod once.
func TestPart01ARejectedObjectIsMissing(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		pods := &rejecting{}
		go NewReflector(FromClient(w.pods), pods).Run(ctx)
		synctest.Wait()
		w.create(t, "web")
		<-time.After(time.Hour)
		assert.Empty(t, pods.ListKeys())
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		var once sync.Once
		pods := store.New(func(p pod) (key store.Key, err error) {
			once.Do(func() { err = errNotNow })
			if err != nil {
				return key, err
			}
			return store.ObjectKey(p)
		})
		go func() { assert.NoError(t, reflector.New(w.pods, pods).Run(ctx)) }()
		synctest.Wait()
		w.create(t, "web")
		<-time.After(time.Hour)
		assert.Equal(t, 1, pods.Len())
	})
}

var errNotNow = errors.New("not now")

// rejecting is a Store that rejects the first object.
type rejecting struct {
	Map[pod]
	once sync.Once
}

func (r *rejecting) Add(p pod) (err error) {
	r.once.Do(func() { err = errNotNow })
	if err != nil {
		return err
	}
	return r.Map.Add(p)
}
