package series

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/stretchr/testify/assert"
)

// A handler does not want resyncs. The server has a pod at the first list.
func TestPart07AListIsTakenForAResync(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		pods := NewSharedInformer(FromClient(w.pods))
		syncing, other := &notes{}, &notes{}
		pods.AddEventHandler(syncing, true)
		pods.AddEventHandler(other, false)
		go pods.Run(ctx)
		synctest.Wait()
		assert.Equal(t, []string{"added web"}, syncing.all())
		assert.Empty(t, other.all())
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		pods := informer.New(w.pods)
		other := &notes{}
		pods.Handle(other.library()) // without informer.WithResync
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		synctest.Wait()
		assert.Equal(t, []string{"added web"}, other.all())
	})
}
