package clientgo

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestWaitingForInformersAndHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewTyped(configMaps(t, server), WithInformer(informer.WithName("maps")))
		hold := make(chan struct{})
		slow, err := s.AddEventHandler(&diary{before: func() { <-hold }})
		require.NoError(t, err)
		both := []cache.DoneChecker{s.HasSyncedChecker(), slow.HasSyncedChecker()}
		assert.Equal(t, "informer maps", both[0].Name())
		assert.Equal(t, "informer maps, handler #1 (*clientgo.diary)", both[1].Name())

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.False(t, cache.WaitFor(ended, "", both...), "nothing is done yet")
		assert.False(t, cache.WaitForCacheSync(ended.Done(), s.HasSynced))
		assert.True(t, cache.WaitFor(ended, ""), "nobody to wait for")

		run(t, s)
		begun := time.Now()
		assert.True(t, cache.WaitFor(t.Context(), "", both[0]))
		assert.True(t, cache.WaitFor(ended, "", both[0]), "what is done is done, whatever the context")
		assert.Zero(t, time.Since(begun), "nobody polls")
		assert.True(t, cache.WaitForCacheSync(t.Context().Done(), s.HasSynced))
		assert.True(t, cache.WaitForNamedCacheSyncWithContext(t.Context(), s.HasSynced))

		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.False(t, cache.WaitFor(limited, "", both...), "the handler is slow")
		assert.Equal(t, time.Minute, time.Since(begun))
		close(hold)
		assert.True(t, cache.WaitFor(t.Context(), "", both...))
	})
}

// put gives a factory an informer of ours in place of the generated one.
func put(factory informers.SharedInformerFactory) *shared {
	var s *shared
	factory.InformerFor(&configMap{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		s = NewTyped(client.CoreV1().ConfigMaps(""), WithResync(resync))
		return s
	})
	return s
}

func TestFactoryHandsOutOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"))
		var m marking
		factory := informers.NewSharedInformerFactoryWithOptions(clientset(t, server), time.Minute, informers.WithTransform(m.transform))
		ours := put(factory)
		maps := factory.Core().V1().ConfigMaps()
		require.Same(t, ours.GetIndexer(), maps.Informer().GetIndexer(), "everybody who asks gets it")
		secrets := factory.Core().V1().Secrets().Informer() // stays client-go's
		var d diary
		_, err := maps.Informer().AddEventHandler(&d)
		require.NoError(t, err)

		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		synced := factory.WaitForCacheSyncWithContext(ctx)
		require.NoError(t, synced.AsError())
		assert.Len(t, synced.Synced, 2)
		assert.True(t, secrets.HasSynced())
		held, err := maps.Lister().ConfigMaps("default").Get("a")
		require.NoError(t, err)
		assert.Equal(t, "x!", held.Data["word"], "the factory's transform is made")
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"initial a:x!", "resync a:x!"}, d.read(), "the factory's resync period")
		cancel()
		factory.Shutdown()
		assert.True(t, ours.IsStopped())
	})
}

func TestFactorySaysWhatIsNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(500).On("", "configmaps"))
		factory := informers.NewSharedInformerFactory(clientset(t, server), 0)
		put(factory)
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		impatient, give := context.WithCancelCause(ctx)
		enough := errors.New("enough")
		time.AfterFunc(time.Minute, func() { give(enough) })
		result := factory.WaitForCacheSyncWithContext(impatient)
		assert.Equal(t, map[reflect.Type]bool{reflect.TypeFor[*configMap](): false}, result.Synced)
		require.ErrorIs(t, result.AsError(), enough)
		assert.ErrorContains(t, result.AsError(), "*v1.ConfigMap")
		assert.NotEmpty(t, reported.take(), "each failure was told, as client-go does")
		cancel()
		factory.Shutdown()
	})
}
