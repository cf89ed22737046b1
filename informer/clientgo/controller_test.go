package clientgo

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestInformersWithOneHandler(t *testing.T) {
	var m marking
	for name, test := range map[string]struct {
		start func(lw cache.ListerWatcher, handler cache.ResourceEventHandler) (cache.Store, cache.Controller)
		want  []string
	}{
		"NewInformer": {func(lw cache.ListerWatcher, handler cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			return NewInformer(lw, &configMap{}, 0, handler)
		}, []string{"initial a:x"}},
		"NewIndexerInformer": {func(lw cache.ListerWatcher, handler cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			x, c := NewIndexerInformer(lw, &configMap{}, 0, handler, byNamespace)
			assert.Contains(t, x.GetIndexers(), cache.NamespaceIndex)
			return x, c
		}, []string{"initial a:x"}},
		"NewInformerWithOptions": {func(lw cache.ListerWatcher, handler cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			return NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw, ObjectType: &configMap{}, Handler: handler, Transform: m.transform})
		}, []string{"initial a:x!"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				create(t, server, named("a", "x"))
				release := make(chan struct{})
				d := &diary{before: func() { <-release }}
				objects, c := test.start(listWatch(clientset(t, server)), d)
				run(t, c)
				synctest.Wait()
				assert.Equal(t, []string{"default/a"}, objects.ListKeys())
				assert.NotEmpty(t, c.LastSyncResourceVersion())
				assert.False(t, c.HasSynced(), "the handler has not got the object")
				close(release)
				<-c.HasSyncedChecker().Done()
				synctest.Wait()
				assert.Equal(t, test.want, d.take())
			})
		})
	}
}

func TestInformerWithoutAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		objects, c := NewInformer(listWatch(clientset(t, server)), &configMap{}, 0, nil)
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(stop) }()
		synctest.Wait()
		assert.True(t, c.HasSynced())
		assert.Len(t, objects.List(), 1)
		close(stop)
		<-ended
	})
}
