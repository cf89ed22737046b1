package series

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
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
		written, read := reflect.TypeFor[*store.Cache[pod]](), reflect.TypeOf(informer.New(w.pods).Cache())
		for _, name := range []string{"Add", "Update", "Delete", "DeleteKey", "Replace", "BeginBatch"} {
			_, writes := written.MethodByName(name)
			assert.True(t, writes, "a Cache has the method %s", name)
			_, writes = read.MethodByName(name)
			assert.False(t, writes, "a View has the method %s", name)
		}
	})
}
