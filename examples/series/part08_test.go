package series

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/stretchr/testify/assert"
)

// How many goroutines does a handler cost? We add a hundred.
func TestPart08AHandlerHasTwoGoroutines(t *testing.T) {
	perHandler := func(add func()) float64 {
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 100 {
			add()
		}
		synctest.Wait()
		return float64(runtime.NumGoroutine()-before) / 100
	}
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		pods := NewSharedInformer(FromClient(w.pods))
		go pods.Run(ctx)
		assert.InDelta(t, 2, perHandler(func() { pods.AddEventHandler(&notes{}, true) }), 0.1)
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		pods := informer.New(w.pods)
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		assert.InDelta(t, 1, perHandler(func() { pods.Handle((&notes{}).library()) }), 0.1)
	})
}
