package series

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
)

// A handler is not due for a resync. The watch fails, and only the list after it has a new pod. (The
// first list is no such case in client-go 6.0, where each handler counts as due until the first check.)
func TestPart07AListIsTakenForAResync(t *testing.T) {
	missWatch := func(t *testing.T, w world) {
		<-time.After(time.Minute)
		failure := w.Inject(reflectortest.Answer(http.StatusGone).On("watch", "pods").Times(1))
		assert.NoError(t, w.Restore(w.ResourceVersion())) // restores nothing, but breaks the watch
		synctest.Wait()
		w.create(t, "web")
		<-time.After(time.Minute)
		assert.Equal(t, 1, failure.Hits())
		synctest.Wait()
	}
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		pods := NewSharedInformer(FromClient(w.pods))
		syncing, other := &notes{}, &notes{}
		pods.AddEventHandler(syncing, true)
		pods.AddEventHandler(other, false)
		go pods.Run(ctx)
		missWatch(t, w)
		assert.Equal(t, []string{"added web"}, syncing.all())
		assert.Empty(t, other.all())
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		pods := informer.New(w.pods)
		other := &notes{}
		pods.Handle(other.library()) // without informer.WithResync
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		missWatch(t, w)
		assert.Equal(t, []string{"added web"}, other.all())
	})
}

// All types together: what happens on the server reaches the store and the handler.
func TestPart07AMessageReachesTheHandler(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "db")
		heard := &notes{}
		pods := NewSharedInformer(FromClient(w.pods))
		pods.AddEventHandler(heard, true)
		assert.False(t, pods.HasSynced())
		go pods.Run(ctx)
		synctest.Wait()
		assert.True(t, pods.HasSynced())
		publish(t, w)
		assert.Equal(t, []string{"added db", "added web", "updated web", "deleted web"}, slices.Compact(heard.all()))
		assert.Equal(t, []string{"default/db"}, pods.GetStore().ListKeys())
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "db")
		heard := &notes{}
		pods := informer.New(w.pods)
		pods.Handle(heard.library())
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		assert.NoError(t, pods.WaitForSync(ctx))
		publish(t, w)
		assert.Equal(t, []string{"added db", "added web", "updated web", "deleted web"}, slices.Compact(heard.all()))
		assert.Equal(t, 1, pods.Cache().Len())
	})
}

// publish creates a pod, changes it and deletes it. The server marks the pod before it removes it,
// which is a second change.
func publish(t *testing.T, w world) {
	t.Helper()
	web := newPod("web", "")
	assert.NoError(t, w.Create(web))
	synctest.Wait()
	web.Labels = map[string]string{"tier": "front"}
	assert.NoError(t, w.Update(web))
	synctest.Wait()
	assert.NoError(t, w.Delete(web))
	synctest.Wait()
}
