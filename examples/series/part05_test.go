package series

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/stretchr/testify/assert"
)

// A program deletes a pod from the store that it may only read. Then the pod changes.
func TestPart05TheStoreOfTheCallerCanBeWritten(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		heard := &notes{}
		known, c := NewInformer(FromClient(w.pods), heard)
		go c.Run(ctx)
		synctest.Wait()
		assert.NoError(t, known.Delete(newPod("web", "")), "it compiles, and succeeds")
		changed := newPod("web", "")
		changed.Labels = map[string]string{"tier": "front"}
		assert.NoError(t, w.Update(changed))
		synctest.Wait()
		assert.Equal(t, []string{"added web", "added web"}, heard.all())
	})
	inWorld(t, "the library", func(t *testing.T, _ context.Context, w world) {
		_, writable := any(informer.New(w.pods).Cache()).(interface{ Delete(pod) error })
		assert.False(t, writable, "a View has no method that writes")
	})
}
