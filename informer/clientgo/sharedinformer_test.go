package clientgo

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestLifeOfAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewTyped(configMaps(t, server))
		var d diary
		handle, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		controller := s.GetController()

		assert.False(t, s.IsStopped(), "before Run")
		assert.False(t, s.HasSynced())
		assert.False(t, controller.HasSynced())
		assert.Empty(t, s.LastSyncResourceVersion())

		stop := run(t, s)
		synctest.Wait()
		assert.False(t, s.IsStopped(), "while it runs")
		assert.True(t, s.HasSynced())
		assert.True(t, controller.HasSynced())
		assert.True(t, done(controller.HasSyncedChecker().Done()))
		assert.Equal(t, s.GetStore().LastStoreSyncResourceVersion(), s.LastSyncResourceVersion())
		assert.NotEmpty(t, s.LastSyncResourceVersion())
		assert.Equal(t, s.LastSyncResourceVersion(), controller.LastSyncResourceVersion())
		assert.Equal(t, []string{"initial a"}, d.read())
		reported.take()
		s.RunWithContext(t.Context()) // returns at once
		errs := reported.take()
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], informer.ErrRunning)
		assert.ErrorIs(t, s.SetTransform(nil), ErrStarted, "it still runs")
		controller.Run(nil)
		controller.RunWithContext(t.Context())

		stop()
		assert.True(t, s.IsStopped(), "after Run")
		assert.True(t, s.HasSynced(), "what was true stays so")
		assert.True(t, handle.HasSynced())
		_, err = s.AddEventHandler(&d)
		assert.ErrorIs(t, err, ErrStopped)
		assert.ErrorContains(t, err, "handler *clientgo.diary was not added to shared informer because it has stopped already", "as in client-go")
		err = s.AddIndexers(cache.Indexers{})
		assert.ErrorIs(t, err, ErrStopped)
		assert.ErrorContains(t, err, "not added to shared informer because it has stopped already")
		assert.NoError(t, s.RemoveEventHandler(handle))
		assert.NoError(t, shutDown(s, handle))
		s.RunWithContext(t.Context()) // does not start again
		errs = reported.take()
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], ErrStopped)
		assert.Len(t, server.Requests(reflectortest.Verb("watch")), 1)
	})
}

func TestInformerIsStoppedAsSoonAsItIsToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewTyped(configMaps(t, server))
		release := make(chan struct{})
		_, err := s.AddEventHandler(&diary{before: func() { <-release }})
		require.NoError(t, err)
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(stop) }()
		synctest.Wait()
		close(stop)
		synctest.Wait()

		assert.True(t, s.IsStopped())
		_, err = s.AddEventHandler(&diary{})
		assert.ErrorIs(t, err, ErrStopped, "nobody would call it any more")
		assert.False(t, done(ended), "Run waits for the running call")
		close(release)
		<-ended
	})
}

func TestInformerThatSomebodyElseRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		i := informer.New(configMaps(t, server))
		s := AsSharedIndexInformer(i)
		assert.Same(t, i, s.Informer())
		var d diary
		_, err := s.AddEventHandler(&d)
		require.NoError(t, err)

		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- i.Run(ctx) }()
			synctest.Wait()
			s.RunWithContext(t.Context()) // returns at once, and changes nothing
			assert.True(t, s.HasSynced())
			cancel()
			require.NoError(t, <-ended)
			assert.False(t, s.IsStopped(), "it may be run again")
			create(t, server, named("b"+s.LastSyncResourceVersion()))
		}
		assert.Len(t, d.read(), 2, "the handler is told in the second run as well")

		stop := run(t, s)
		synctest.Wait()
		stop()
		assert.Len(t, d.read(), 3)
		assert.True(t, s.IsStopped())
	})
}

// The race detector is what finds something here (kubernetes/kubernetes#59822).
func TestHandlersAndHooksMayComeWhileItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewTyped(configMaps(t, server))
		var d diary
		var racing sync.WaitGroup
		racing.Go(func() {
			_, err := s.AddEventHandlerWithResyncPeriod(&d, 0)
			assert.NoError(t, err)
		})
		racing.Go(func() {
			for s.SetTransform(func(object any) (any, error) { return object, nil }) == nil {
			}
		})
		racing.Go(func() {
			for s.SetWatchErrorHandler(func(*cache.Reflector, error) {}) == nil {
			}
		})
		stop := run(t, s)
		racing.Wait()
		synctest.Wait()
		stop()
		assert.Equal(t, []string{"initial a"}, d.read())
	})
}

func TestHandlersGetWhatIsQueuedWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		s := NewTyped(configMaps(t, server))
		var d diary
		d.before = func() { <-time.After(time.Second) }
		handle, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		stop := run(t, s)
		<-s.HasSyncedChecker().Done()
		stop()
		assert.Equal(t, []string{"initial a", "initial b"}, d.read())
		ended, ok := handle.(interface{ ShutdownChan() <-chan struct{} })
		require.True(t, ok)
		assert.True(t, done(ended.ShutdownChan()), "a registration ends with its informer")
	})
}
