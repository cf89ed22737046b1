package series

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/stretchr/testify/assert"
)

// A handler is stuck in its first call while its pod changes 999 times.
func TestPart06AStuckHandlerKeepsEveryEvent(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var d Distributor[pod]
			stuck := &notes{stuck: make(chan struct{})}
			d.AddHandler(stuck, true)
			for version := range 1000 {
				d.Distribute(Event[pod]{Type: Modification, Object: newPod("web", strconv.Itoa(version+1))})
			}
			synctest.Wait()
			assert.EqualValues(t, 999, d.listeners[0].waiting.Load())
			close(stuck.stuck)
			d.Close()
		})
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		stuck := &notes{stuck: make(chan struct{})}
		pods := informer.New(w.pods)
		subscription := pods.Handle(stuck.library())
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		changed := newPod("web", "")
		assert.NoError(t, w.Create(changed))
		synctest.Wait()
		for version := range 999 {
			changed.Labels = map[string]string{"version": strconv.Itoa(version + 1)}
			assert.NoError(t, w.Update(changed))
		}
		synctest.Wait()
		stats := subscription.Stats()
		assert.Equal(t, 2, stats.Events, "the one that it works on, and the newest")
		close(stuck.stuck)
	})
}

// A second handler comes when the first list is handled.
func TestPart06ALateHandlerHearsNothing(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		pods := NewSharedInformer(FromClient(w.pods))
		go pods.Run(ctx)
		synctest.Wait()
		late := &notes{}
		pods.AddEventHandler(late, true)
		synctest.Wait()
		assert.Empty(t, late.all())
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		pods := informer.New(w.pods)
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		synctest.Wait()
		late := &notes{}
		pods.Handle(late.library())
		synctest.Wait()
		assert.Equal(t, []string{"added web"}, late.all())
	})
}
