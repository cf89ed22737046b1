package informer

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestTheLastReleaseStopsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		var group Group
		made := 0
		create := func() *Informer[*corev1.Pod] { made++; return newServed(t, server) }
		first, err := Share(&group, "pods", create)
		require.NoError(t, err)
		stop := start(t, &group)
		second, err := Share(&group, "pods", create)
		require.NoError(t, err)
		pods := first.Informer()
		assert.Same(t, pods, second.Informer())
		assert.Equal(t, 1, made)
		require.NoError(t, group.WaitForSync(t.Context()))

		first.Release()
		first.Release()
		assert.Nil(t, first.Informer())
		synctest.Wait()
		assert.Equal(t, reflector.Watching, pods.State().Phase, "one lease is left")
		second.Release()
		<-second.Done()
		assert.Equal(t, reflector.Stopped, pods.State().Phase)
		assert.True(t, isDone(first.Done()))

		third, err := Share(&group, "pods", create)
		require.NoError(t, err)
		assert.Equal(t, 2, made)
		require.NoError(t, third.Informer().WaitForSync(t.Context()), "a new one begins")
		third.Release()
		require.NoError(t, stop())
		assert.Empty(t, group.members)
	})
}

func TestReleasedCacheIsFreed(t *testing.T) {
	var group Group
	lease, err := Share(&group, "pods", func() *Informer[*corev1.Pod] { return newPods() })
	require.NoError(t, err)
	cache := weak.Make(lease.Informer().cache)
	require.NoError(t, lease.Informer().cache.Add(pod("a", "u", 1)))
	runtime.GC()
	require.NotNil(t, cache.Value())
	lease.Release()
	for range 3 {
		runtime.GC()
	}
	assert.Nil(t, cache.Value())
	runtime.KeepAlive(lease) // one that is kept keeps nothing
	runtime.KeepAlive(&group)
}

func TestSharingUnderOneNameNeedsOneType(t *testing.T) {
	var group Group
	lease, err := Share(&group, "pods", func() *Informer[*corev1.Pod] { return newPods() })
	require.NoError(t, err)
	_, err = Share(&group, "pods", func() *Informer[site] { return NewScoped(site.key) })
	var refused *ShareError
	require.ErrorAs(t, err, &refused)
	assert.EqualError(t, err, `share informer "pods": it is a *informer.Informer[*k8s.io/api/core/v1.Pod], not a *informer.Informer[github.com/kubereflector/kubereflector/informer.site]; use another name`)
	_, err = Share(&group, "none", func() *Informer[site] { return nil })
	require.ErrorIs(t, err, ErrNoInformer)
	lease.Release()
	_, err = Share(&group, "pods", func() *Informer[site] { return NewScoped(site.key) })
	require.NoError(t, err)
}

func TestLeasesAreTakenAndReleasedByManyAtOnce(t *testing.T) {
	server := reflectortest.Start(t)
	require.NoError(t, server.Create(onNode("a", "n")))
	var group Group
	stop := start(t, &group)
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 20 {
				lease, err := Share(&group, "pods", func() *Informer[*corev1.Pod] { return newServed(t, server) })
				if !assert.NoError(t, err) {
					return
				}
				pods := lease.Informer()
				assert.NoError(t, pods.WaitForSync(t.Context()))
				_, ok := pods.Cache().Get(store.Key{Namespace: "default", Name: "a"})
				assert.True(t, ok)
				lease.Release()
			}
		})
	}
	users.Wait()
	assert.Empty(t, group.shared)
	require.NoError(t, stop())
}
