package series

import (
	"context"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/watch"
)

// A listener leaves, a pod is deleted, and the listener comes back.
func TestPart00ADeletionWhileTheListenerIsAwayIsMissed(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		believed := map[string]bool{}
		listen := func() {
			ctx, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			assert.NoError(t, Listen(ctx, FromClient(w.pods), func(verb watch.EventType, p pod) {
				believed[p.Name] = verb != watch.Deleted
			}))
		}
		w.create(t, "web")
		listen()
		assert.NoError(t, w.Delete(newPod("web", "")))
		listen()
		assert.True(t, believed["web"], "it believes in a pod that is gone")
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		believed := map[string]bool{}
		pods := informer.New(w.pods)
		pods.Handle(informer.HandlerFuncs[pod]{
			OnAdd:    func(p pod, _ bool) { believed[p.Name] = true },
			OnDelete: func(p pod, _ bool) { believed[p.Name] = false },
		})
		listen := func() {
			ctx, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			assert.NoError(t, pods.Run(ctx))
		}
		w.create(t, "web")
		listen()
		assert.True(t, believed["web"])
		assert.NoError(t, w.Delete(newPod("web", "")))
		listen()
		assert.False(t, believed["web"])
	})
}
