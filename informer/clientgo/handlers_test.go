package clientgo

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestHandlersAreToldOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"), named("b"))
		s := NewTyped(configMaps(t, server))
		var early, late diary
		_, err := s.AddEventHandler(&early)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		_, err = s.AddEventHandler(&late)
		require.NoError(t, err)
		require.NoError(t, server.Update(named("a", "y")))
		create(t, server, named("c"))
		require.NoError(t, server.Delete(named("b")))
		synctest.Wait()

		then := []string{"update a:x>a:y", "add c", "delete b"}
		assert.Equal(t, append([]string{"initial a:x", "initial b"}, then...), early.read())
		assert.ElementsMatch(t, early.read(), late.read(), "keys may come in another order")
	})
}

// relist makes changes of which nobody hears until the next list, which is begun by it.
func relist(t *testing.T, server *reflectortest.Server, changes func()) {
	t.Helper()
	// The watch goes on at a version that was forgotten, so that it is refused.
	refused := server.Inject(reflectortest.Refuse().On("watch", ""))
	require.NoError(t, server.Restore(server.ResourceVersion())) // cuts off all watches
	synctest.Wait()
	changes()
	// The change before the one that is kept has to be later than what the watch has seen.
	create(t, server, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "any-"}})
	require.NoError(t, server.Compact(server.ResourceVersion()))
	refused.Remove()
	<-time.After(time.Minute)
	synctest.Wait()
}

func TestRelistTellsOfWhatChangedAndOfNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("changed", "x"), named("gone"), named("same"), named("again"))
		s := NewTyped(configMaps(t, server))
		var plain, resyncing diary
		_, err := s.AddEventHandlerWithResyncPeriod(&plain, 0)
		require.NoError(t, err)
		_, err = s.AddEventHandlerWithResyncPeriod(&resyncing, time.Hour)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		assert.Len(t, plain.take(), 4)
		assert.Len(t, resyncing.take(), 4)

		relist(t, server, func() {
			require.NoError(t, server.Update(named("changed", "y")))
			require.NoError(t, server.Delete(named("gone")))
			require.NoError(t, server.Delete(named("again")))
			create(t, server, named("again"), named("new"))
		})
		require.Len(t, server.Requests(reflectortest.Param("sendInitialEvents", "true"), reflectortest.Answered(200)), 2)
		want := []string{"update changed:x>changed:y", "missing default/gone gone", "missing default/again again", "add again", "add new"}
		assert.ElementsMatch(t, want, plain.take())
		assert.ElementsMatch(t, want, resyncing.take())

		<-time.After(time.Hour)
		synctest.Wait()
		assert.Empty(t, plain.take())
		assert.ElementsMatch(t, []string{"resync changed:y", "resync same", "resync again", "resync new"}, resyncing.take())
	})
}

func TestResyncsComeToThoseWhoAskedInTheirPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		s := NewTyped(configMaps(t, server), WithResync(5*time.Second))
		var never, two, three, usual, hasty, late diary
		add := func(d *diary, period time.Duration) {
			_, err := s.AddEventHandlerWithResyncPeriod(d, period)
			require.NoError(t, err)
		}
		add(&never, 0)
		add(&two, 2*time.Second)
		add(&three, 3*time.Second)
		add(&hasty, time.Millisecond)
		_, err := s.AddEventHandler(&usual)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		all := []*diary{&never, &two, &three, &usual, &hasty}
		for _, d := range all {
			assert.Equal(t, []string{"initial a", "initial b"}, d.take())
		}
		add(&late, time.Second) // not held up by what others asked for
		synctest.Wait()
		late.take()

		both := []string{"resync a", "resync b"}
		for second, due := range [][]*diary{1: {&hasty}, 2: {&two, &hasty}, 3: {&three, &hasty}, 4: {&two, &hasty}, 5: {&usual, &hasty}} {
			if second == 0 {
				continue
			}
			<-time.After(time.Second)
			synctest.Wait()
			got := map[*diary][]string{}
			for _, d := range append(all, &late) {
				if lines := d.take(); len(lines) > 0 {
					got[d] = lines
				}
			}
			want := map[*diary][]string{&late: both}
			for _, d := range due {
				want[d] = both
			}
			assert.Equal(t, want, got, "after %d seconds", second)
		}
	})
}

func TestRegistrationIsSyncedWhenItsHandlerHasBeenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewTyped(configMaps(t, server))
		hold := make(chan struct{})
		slow, quick := &diary{before: func() { <-hold }}, &diary{}
		first, err := s.AddEventHandler(slow)
		require.NoError(t, err)
		other, err := s.AddEventHandler(quick)
		require.NoError(t, err)
		assert.False(t, first.HasSynced(), "before Run")
		run(t, s)
		synctest.Wait()

		assert.True(t, s.HasSynced(), "the cache is filled")
		assert.True(t, other.HasSynced())
		assert.True(t, done(other.HasSyncedChecker().Done()))
		assert.False(t, first.HasSynced(), "it has not returned yet")
		late, err := s.AddEventHandler(slow)
		require.NoError(t, err)
		assert.False(t, late.HasSynced())
		assert.Equal(t, "informer *v1.ConfigMap, handler #3 (*clientgo.diary)", late.HasSyncedChecker().Name())

		close(hold)
		synctest.Wait()
		assert.True(t, first.HasSynced())
		assert.True(t, late.HasSynced())
		assert.Equal(t, []string{"initial a", "initial a"}, slow.read())
	})
}

// blocking is a follower that holds up the first commit.
type blocking chan struct{}

func (blocking) Start(*store.Snapshot[*configMap])  {}
func (b blocking) Commit(*store.Commit[*configMap]) { <-b }

// Code that waits for a handler reads the cache next, and may ask the informer first.
func TestRegistrationIsNotSyncedBeforeItsInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTyped(configMaps(t, reflectortest.Start(t)))
		handle, err := s.AddEventHandler(&diary{})
		require.NoError(t, err)
		removed, err := s.AddEventHandler(&diary{})
		require.NoError(t, err)
		early, ofRemoved := handle.HasSyncedChecker().Done(), removed.HasSyncedChecker().Done()
		require.NoError(t, s.RemoveEventHandler(removed))
		hold := make(blocking)
		s.Informer().Follow(hold)
		run(t, s)
		synctest.Wait()
		require.False(t, s.HasSynced(), "the first list is being committed")
		assert.False(t, handle.HasSynced())
		assert.False(t, done(early))
		assert.False(t, done(handle.HasSyncedChecker().Done()))

		close(hold)
		synctest.Wait()
		assert.True(t, s.HasSynced())
		assert.True(t, handle.HasSynced())
		assert.True(t, done(early))
		assert.True(t, done(handle.HasSyncedChecker().Done()))
		assert.False(t, removed.HasSynced())
		assert.False(t, done(ofRemoved))
	})
}

// The handler has every object of a restored cache before the informer has synced.
func TestHandlerThatIsRemovedBeforeItsInformerIsSyncedStaysUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		release := make(chan struct{})
		server.Inject(reflectortest.Stall(release).On("watch", "configmaps"))
		s := NewTyped(configMaps(t, server))
		require.NoError(t, s.Informer().Restore([]*configMap{stored("a", "a", "1")}, "1"))
		var d diary
		handle, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, s)
		early := handle.HasSyncedChecker().Done()
		synctest.Wait()
		require.Equal(t, []string{"initial a"}, d.read())
		require.False(t, s.HasSynced())
		late := handle.HasSyncedChecker().Done() // the handler itself has its objects
		require.NoError(t, s.RemoveEventHandler(handle))
		close(release)
		synctest.Wait()
		require.True(t, s.HasSynced())
		assert.False(t, handle.HasSynced())
		assert.False(t, done(early))
		assert.False(t, done(late))
		assert.False(t, done(handle.HasSyncedChecker().Done()))
	})
}

func TestOneHandlerAddedTwiceHasTwoRegistrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		s := NewTyped(configMaps(t, server))
		var d diary
		first, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		second, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, s)
		create(t, server, named("a"))
		synctest.Wait()
		assert.Len(t, d.take(), 2)
		require.NoError(t, s.RemoveEventHandler(first))
		create(t, server, named("b"))
		synctest.Wait()
		assert.Equal(t, []string{"add b"}, d.take())
		require.NoError(t, s.RemoveEventHandler(second))
		create(t, server, named("c"))
		synctest.Wait()
		assert.Empty(t, d.take())
		assert.Empty(t, s.registrations, "nothing is kept of handlers that were removed")
	})
}

func TestRemovingWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		ours, theirs := NewTyped(configMaps(t, server)), NewTyped(configMaps(t, server))
		var d diary
		handle, err := ours.AddEventHandler(&d)
		require.NoError(t, err)
		assert.NoError(t, theirs.RemoveEventHandler(handle), "one of another informer is left alone")
		run(t, ours)
		create(t, server, named("a"))
		synctest.Wait()
		assert.Len(t, d.read(), 1)

		assert.NoError(t, ours.RemoveEventHandler(handle))
		assert.NoError(t, ours.RemoveEventHandler(handle), "again")

		assert.ErrorIs(t, ours.RemoveEventHandler(nil), ErrRegistration)
		foreign, err := cache.NewSharedInformer(&cache.ListWatch{}, &configMap{}, 0).AddEventHandler(&d)
		require.NoError(t, err)
		assert.ErrorIs(t, ours.RemoveEventHandler(foreign), ErrRegistration)
		_, err = ours.AddEventHandler(nil)
		assert.ErrorIs(t, err, ErrNoHandler)
	})
}

// shutDown does the same as cache.ShutDownEventHandler, which client-go has since 0.37.
func shutDown(s *shared, handle cache.ResourceEventHandlerRegistration) error {
	if err := s.RemoveEventHandler(handle); err != nil {
		return err
	}
	<-handle.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
	return nil
}

func TestRemovingDoesNotWaitAndShuttingDownDoes(t *testing.T) {
	for name, remove := range map[string]func(*shared, cache.ResourceEventHandlerRegistration) error{
		"remove": func(s *shared, h cache.ResourceEventHandlerRegistration) error { return s.RemoveEventHandler(h) },
		"shut down": func(s *shared, h cache.ResourceEventHandlerRegistration) error {
			return shutDown(s, h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				create(t, server, named("a"), named("b"))
				s := NewTyped(configMaps(t, server))
				hold := make(chan struct{})
				d := &diary{before: func() { <-hold }}
				handle, err := s.AddEventHandler(d)
				require.NoError(t, err)
				run(t, s)
				synctest.Wait()

				removed := make(chan error, 1)
				go func() { removed <- remove(s, handle) }()
				synctest.Wait()
				assert.Equal(t, name == "remove", len(removed) == 1, "a call is running")
				close(hold)
				require.NoError(t, <-removed)
				synctest.Wait()
				assert.Equal(t, []string{"initial a"}, d.read(), "the running call ends, and no other begins")
				assert.False(t, handle.HasSynced())
			})
		})
	}
}

// That nothing is left running, also of the handler that stays, is checked by TestMain.
func TestShuttingDownInEveryOrder(t *testing.T) {
	add := func(t *testing.T, s *shared) cache.ResourceEventHandlerRegistration {
		handle, err := s.AddEventHandler(&diary{})
		require.NoError(t, err)
		return handle
	}
	start := func(t *testing.T, s *shared) {
		run(t, s)
		require.True(t, cache.WaitFor(t.Context(), "", s.HasSyncedChecker()))
	}
	for name, scenario := range map[string]func(*testing.T, *shared) cache.ResourceEventHandlerRegistration{
		"never started":       add,
		"started, then added": func(t *testing.T, s *shared) cache.ResourceEventHandlerRegistration { start(t, s); return add(t, s) },
		"added, then started": func(t *testing.T, s *shared) cache.ResourceEventHandlerRegistration {
			handle := add(t, s)
			start(t, s)
			return handle
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewTyped(configMaps(t, reflectortest.Start(t)))
				add(t, s)
				handle := scenario(t, s)
				require.NoError(t, shutDown(s, handle))
				require.NoError(t, shutDown(s, handle), "again")
			})
		})
	}
}

func TestHandlerMayRemoveItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		s := NewTyped(configMaps(t, server))
		var d diary
		var handle cache.ResourceEventHandlerRegistration
		d.before = func() { assert.NoError(t, s.RemoveEventHandler(handle)) }
		var err error
		handle, err = s.AddEventHandler(&d)
		require.NoError(t, err)
		create(t, server, named("a"), named("b"))
		run(t, s)
		synctest.Wait()
		assert.Equal(t, []string{"initial a"}, d.read())
	})
}

func TestSlowHandlerIsToldOfEachState(t *testing.T) {
	for name, test := range map[string]struct {
		opts []Option
		want []string
	}{
		"as in client-go": {nil, []string{"initial a:1", "update a:1>a:2", "update a:2>a:3", "add b", "delete b"}},
		"in bounded memory": {[]Option{WithHandlers(informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepLatest)))},
			[]string{"initial a:1", "update a:1>a:3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				create(t, server, named("a", "1"))
				s := NewTyped(configMaps(t, server), test.opts...)
				hold := make(chan struct{})
				d := &diary{before: func() { <-hold }}
				_, err := s.AddEventHandler(d)
				require.NoError(t, err)
				run(t, s)
				synctest.Wait()
				require.NoError(t, server.Update(named("a", "2")))
				require.NoError(t, server.Update(named("a", "3")))
				create(t, server, named("b"))
				require.NoError(t, server.Delete(named("b")))
				synctest.Wait()
				close(hold)
				synctest.Wait()
				assert.Equal(t, test.want, d.read())
			})
		})
	}
}

func TestResyncForAllHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewTyped(configMaps(t, server), WithHandlers(informer.WithResync(time.Second)))
		var d diary
		_, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, s)
		<-time.After(1500 * time.Millisecond)
		assert.Equal(t, []string{"initial a", "resync a"}, d.read())
	})
}

func TestFilteringHandlerOfClientGo(t *testing.T) {
	testFilteringHandler(t, func(s *shared, d *diary) error {
		_, err := s.AddEventHandler(cache.FilteringResourceEventHandler{
			FilterFunc: func(object any) bool { return object.(*configMap).Data["word"] == "in" }, Handler: d,
		})
		return err
	})
}

// testFilteringHandler adds a handler that passes the objects with the word "in" to a diary.
func testFilteringHandler(t *testing.T, add func(*shared, *diary) error) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "in"), named("b", "out"))
		s := NewTyped(configMaps(t, server))
		var d diary
		require.NoError(t, add(s, &d))
		run(t, s)
		synctest.Wait()
		labelled := named("b", "in")
		labelled.Labels = map[string]string{"other": "label"}
		for _, change := range []*configMap{named("a", "out"), named("a", "off"), named("b", "in"), labelled} {
			require.NoError(t, server.Update(change))
			synctest.Wait()
		}
		require.NoError(t, server.Delete(named("a")))
		require.NoError(t, server.Delete(named("b")))
		synctest.Wait()
		assert.Equal(t, []string{"initial a:in", "delete a:in", "add b:in", "update b:in>b:in", "delete b:in"}, d.read())
	})
}

// provider is a cache.InformerMetricsProvider that writes down the values.
type provider struct{ queued, latency, version values }

type values struct {
	mu  sync.Mutex
	all []float64
}

func (v *values) Set(value float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, value)
}

func (v *values) Observe(value float64) { v.Set(value) }

func (v *values) last() float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.all[len(v.all)-1]
}

func (p *provider) NewQueuedItemMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return &p.queued
}

func (p *provider) NewProcessingLatencyMetric(cache.InformerNameAndResource) cache.HistogramMetric {
	return &p.latency
}

func (p *provider) NewStoreResourceVersionMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return &p.version
}

func TestInformerFeedsClientGosMetrics(t *testing.T) {
	name, err := cache.NewInformerName("metrics test")
	require.NoError(t, err)
	defer name.Release()
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		var p provider
		s := NewSharedIndexInformerWithOptions(listWatch(clientset(t, server)), &configMap{}, cache.SharedIndexInformerOptions{
			Identifier: name.WithResource(corev1.SchemeGroupVersion.WithResource("configmaps")), InformerMetricsProvider: &p,
		})
		_, err := s.AddEventHandler(&diary{before: func() { <-time.After(time.Second) }})
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		assert.EqualValues(t, 3, p.version.last())
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, []float64{1, 1}, p.latency.all)
		create(t, server, named("c"))
		synctest.Wait()
		assert.EqualValues(t, 4, p.version.last())
		assert.Equal(t, []float64{0}, p.queued.all)
	})
}

func TestInformerWithoutANameHasNoMetrics(t *testing.T) {
	assert.Nil(t, newMetrics[Object](cache.SharedIndexInformerOptions{InformerMetricsProvider: &provider{}}))
}
