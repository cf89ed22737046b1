package clientgo

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/listwatch"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	doubles "k8s.io/client-go/tools/cache/testing"
	"k8s.io/klog/v2"
)

func TestRunUntilAnEndedChannelDoesNothing(t *testing.T) {
	type runner interface {
		HasSynced() bool
		LastSyncResourceVersion() string
		Run(stop <-chan struct{})
	}
	logger := klog.Background()
	var handled diary
	for name, build := range map[string]func(cache.ListerWatcher) runner{
		"NewSharedIndexInformer": func(lw cache.ListerWatcher) runner {
			s := NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, nil)
			_, err := s.AddEventHandler(&handled)
			require.NoError(t, err)
			return s
		},
		"NewInformerWithOptions": func(lw cache.ListerWatcher) runner {
			_, c := NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw, ObjectType: &corev1.ConfigMap{}, Handler: &handled, Logger: &logger})
			return c
		},
		"NewReflectorWithOptions": func(lw cache.ListerWatcher) runner {
			return NewReflectorWithOptions(lw, &corev1.ConfigMap{}, newMetricsStore(""), cache.ReflectorOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				source := doubles.NewFakeControllerSource()
				source.Add(named("a"))
				i := build(source)
				stop := make(chan struct{})
				close(stop)
				i.Run(stop)
				source.Shutdown()
				assert.False(t, i.HasSynced())
				assert.Empty(t, i.LastSyncResourceVersion())
				assert.Empty(t, handled.take())
			}
		})
	}
}

func TestAValueSentToTheChannelOfRunStops(t *testing.T) {
	type runner interface {
		HasSynced() bool
		Run(stop <-chan struct{})
	}
	logger := klog.Background()
	for name, build := range map[string]func(cache.ListerWatcher) runner{
		"NewSharedIndexInformer": func(lw cache.ListerWatcher) runner {
			return NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, nil)
		},
		"NewSharedInformer": func(lw cache.ListerWatcher) runner {
			return NewSharedInformer(lw, &corev1.ConfigMap{}, 0)
		},
		"NewInformerWithOptions": func(lw cache.ListerWatcher) runner {
			_, c := NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw, ObjectType: &corev1.ConfigMap{}, Logger: &logger})
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := doubles.NewFakeControllerSource()
				t.Cleanup(source.Shutdown)
				source.Add(named("a"))
				i := build(source)
				stop, ended := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(ended)
					i.Run(stop)
				}()
				synctest.Wait()
				assert.True(t, i.HasSynced())
				stop <- struct{}{}
				synctest.Wait()
				assert.True(t, done(ended))
			})
		})
	}
}

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
		assert.ErrorIs(t, errs[0], reflector.ErrRunning)
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

// listWatch is the ListerWatcher of a generated informer of ConfigMaps.
func listWatch(client kubernetes.Interface) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().ConfigMaps("").List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().ConfigMaps("").Watch(ctx, opts)
		},
	}, client)
}

var byNamespace = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}

func TestInformerOfAListerWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"), named("b", "x"))
		s := NewSharedIndexInformer(listWatch(clientset(t, server)), &configMap{}, 2*time.Second, byNamespace)
		var m marking
		require.NoError(t, s.SetTransform(m.transform))
		var d diary
		_, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		require.NoError(t, server.Update(named("a", "y")))
		require.NoError(t, server.Delete(named("b")))
		synctest.Wait()
		assert.Equal(t, []string{"initial a:x!", "initial b:x!", "update a:x!>a:y!", "delete b:x!"}, d.take())
		found, err := s.GetIndexer().ByIndex(cache.NamespaceIndex, "default")
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.IsType(t, &configMap{}, found[0])
		<-time.After(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"resync a:y!"}, d.take())
		assert.Len(t, server.Requests(), 1, "one watch-list")
	})
}

func TestObjectOfAnotherTypeThanTheExampleIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewSharedIndexInformer(listWatch(clientset(t, server)), &corev1.Secret{}, 0, nil)
		run(t, s)
		synctest.Wait()
		assert.True(t, s.HasSynced(), "the list is complete, except for the rejected objects")
		assert.Empty(t, s.GetStore().List())
		errs := reported.take()
		require.NotEmpty(t, errs)
		assert.ErrorContains(t, errs[0], "object is a *v1.ConfigMap, not a *v1.Secret")
	})
}

func TestInformerWithoutAnExampleTakesEveryType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewSharedIndexInformer(listWatch(clientset(t, server)), nil, 0, nil)
		run(t, s)
		synctest.Wait()
		assert.Len(t, s.GetStore().List(), 1)
	})
}

func TestNilListerWatcherIsAnErrorOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		s := NewSharedIndexInformer(nil, &configMap{}, 0, nil)
		s.RunWithContext(t.Context()) // returns
		errs := reported.take()
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], reflector.ErrNoClient)
		assert.False(t, s.HasSynced())
		assert.True(t, s.IsStopped())
	})
}

func TestIndexerWithoutAFunctionPanics(t *testing.T) {
	assert.PanicsWithValue(t, `clientgo: new informer of *v1.ConfigMap: index "none": no index function`, func() {
		NewSharedIndexInformer(&cache.ListWatch{}, &configMap{}, 0, cache.Indexers{"none": nil})
	})
}

func TestDescriptionIsTheNameOfTheInformer(t *testing.T) {
	s := NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &configMap{}, cache.SharedIndexInformerOptions{ObjectDescription: "settings"})
	assert.Equal(t, "informer settings", s.HasSyncedChecker().Name())
}

// Logs of a program with many kinds say whose failure a line is.
func TestInformersAndReflectorsOfUnnamedKindsHaveNames(t *testing.T) {
	var options cache.SharedIndexInformerOptions
	resource, err := client.ForType[Object](&rest.Config{}, appsv1.SchemeGroupVersion.WithResource("deployments"), &appsv1.Deployment{})
	require.NoError(t, err)
	thing := &unstructured.Unstructured{}
	thing.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"})
	filling := func(example any) cache.Controller {
		return NewReflectorWithOptions(&cache.ListWatch{}, example, newMetricsStore(""), cache.ReflectorOptions{})
	}
	for want, of := range map[string]interface{ HasSyncedChecker() cache.DoneChecker }{
		"informer deployments.apps/v1":                             FromClient(resource, options),
		"informer clientgo.Object":                                 FromClient(listwatch.Client[Object](&cache.ListWatch{}), options),
		"reflector *v1.ConfigMap":                                  filling(&configMap{}),
		"reflector Thing.example.com (*unstructured.Unstructured)": filling(thing),
		"reflector objects":                                        filling(nil),
	} {
		assert.Equal(t, want, of.HasSyncedChecker().Name())
	}
	options.ObjectDescription = "settings"
	assert.Equal(t, "informer settings", FromClient(resource, options).HasSyncedChecker().Name())
}

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

// A read of controller-runtime's cache asks whether the informer has stopped. It must not wait for
// AddEventHandler, which holds the lock while it waits for a commit.
func TestIsStoppedWaitsForNoHandler(t *testing.T) {
	s := NewTyped(configMaps(t, reflectortest.Start(t)))
	stop := run(t, s)
	answers := make(chan bool, 1)
	ask := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		go func() { answers <- s.IsStopped() }()
		return <-answers
	}
	assert.False(t, ask())
	stop()
	assert.True(t, ask())
}

func TestObjectsStateTheKindThatClientsOfClientGoGive(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for _, object := range []Object{&configMap{}, &metav1.PartialObjectMetadata{}, &unstructured.Unstructured{}} {
		object.GetObjectKind().SetGroupVersionKind(kind)
		got, err := withoutKind(object)
		require.NoError(t, err)
		_, typed := object.(*configMap)
		assert.Equal(t, typed, got.GetObjectKind().GroupVersionKind().Empty(), "%T", object)
	}
}
