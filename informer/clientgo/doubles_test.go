package clientgo

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	doubles "k8s.io/client-go/tools/cache/testing"
)

// TestListOfAFakeWithoutAVersion keeps the tests of Kubernetes' deployment controller: they start
// informers of a zero fake.Clientset, whose lists have no resource version and whose watches fail.
func TestListOfAFakeWithoutAVersion(t *testing.T) {
	for name, make := range map[string]func() cache.SharedIndexInformer{
		"ListerWatcher": func() cache.SharedIndexInformer {
			return NewSharedIndexInformer(listWatch(&fake.Clientset{}), &configMap{}, 0, byNamespace)
		},
		"typed client": func() cache.SharedIndexInformer {
			return NewTyped((&fake.Clientset{}).CoreV1().ConfigMaps(""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := make()
				require.NoError(t, s.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
					assert.NotContains(t, err.Error(), "list", "%v", err)
				}))
				run(t, s)
				synctest.Wait()
				assert.True(t, s.HasSynced())
				assert.Empty(t, s.GetStore().List())
			})
		})
	}
}

// TestFakeControllerSourceIsListed keeps client-go's tests of shared informers: the double answers a
// watch-list with an error.
func TestFakeControllerSourceIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := doubles.NewFakeControllerSource()
		defer from.Shutdown()
		from.Add(named("a"))
		s := NewSharedIndexInformer(from, &configMap{}, 0, nil)
		require.NoError(t, s.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { t.Error(err) }))
		var log lines
		var d diary
		_, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		stop := run(t, withLogger{s, log.logger()})
		synctest.Wait()
		from.Add(named("b"))
		synctest.Wait()
		assert.Equal(t, []string{"initial a", "add b"}, d.take())
		assert.Empty(t, log.read())
		stop()
	})
}
