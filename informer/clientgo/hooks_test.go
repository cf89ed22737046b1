package clientgo

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/features"
	featuretesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"
)

// marking is a transform that counts its calls and refuses what it made itself.
type marking struct {
	mu    sync.Mutex
	calls int
}

func (m *marking) transform(object any) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	c, ok := object.(*configMap)
	switch {
	case !ok:
		return nil, errors.New("no ConfigMap")
	case c.Labels["marked"] != "":
		return nil, errors.New("marked already")
	case c.Name == "other type":
		return &corev1.Secret{ObjectMeta: c.ObjectMeta}, nil
	case c.Name == "other key":
		c.Name = "another"
	}
	c.Labels = map[string]string{"marked": "yes"}
	c.Data = map[string]string{"word": c.Data["word"] + "!"}
	return c, nil
}

func TestTransformIsSeenByEverybodyAndMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"), named("b", "x"), named("c", "x"))
		s := NewTyped(configMaps(t, server))
		var m marking
		require.NoError(t, s.SetTransform(m.transform))
		var d diary
		_, err := s.AddEventHandlerWithResyncPeriod(&d, time.Second)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		require.NoError(t, server.Update(named("a", "y")))
		require.NoError(t, server.Delete(named("b")))
		create(t, server, named("d", "x"))
		synctest.Wait()
		assert.Equal(t, []string{"initial a:x!", "initial b:x!", "initial c:x!", "update a:x!>a:y!", "delete b:x!", "add d:x!"}, d.take())
		// The final state of b went through it as well.
		assert.Equal(t, 6, m.calls)

		<-time.After(time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"resync a:y!", "resync c:x!", "resync d:x!"}, d.take())
		relist(t, server, func() { require.NoError(t, server.Update(named("c", "y"))) })
		assert.Contains(t, d.take(), "update c:x!>c:y!")
		assert.Equal(t, 9, m.calls, "this client has no hashes, so only the results can be compared")

		object, ok, err := s.GetStore().GetByKey("default/c")
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, "yes", object.(*configMap).Labels["marked"])
	})
}

func TestObjectThatATransformSpoilsIsNotStored(t *testing.T) {
	for name, cause := range map[string]error{
		"other type": &TypeError{Want: "*v1.ConfigMap", Got: "*v1.Secret"},
		"other key":  store.ErrBadKey,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported.take()
				server := reflectortest.Start(t)
				bad := named("good", "x")
				create(t, server, bad)
				s := NewTyped(configMaps(t, server))
				var m marking
				require.NoError(t, s.SetTransform(func(object any) (any, error) {
					if c := object.(*configMap); c.Name == "bad" {
						c.Name = name
					}
					return m.transform(object)
				}))
				require.NoError(t, s.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { t.Errorf("no list or watch failed: %v", err) }))
				run(t, s)
				synctest.Wait()
				create(t, server, named("bad"))
				synctest.Wait()
				assert.Equal(t, []string{"default/good"}, s.GetStore().ListKeys())
				errs := reported.take()
				require.NotEmpty(t, errs)
				if want, ok := errors.AsType[*TypeError](cause); ok {
					got, ok := errors.AsType[*TypeError](errs[0])
					require.True(t, ok, "%v", errs[0])
					assert.Equal(t, want, got)
				} else {
					assert.ErrorIs(t, errs[0], cause)
				}
			})
		})
	}
}

func TestWatchErrorHandlerIsToldOfListsAndWatchesThatFail(t *testing.T) {
	type failure struct {
		reflector *cache.Reflector
		err       error
	}
	for name, set := range map[string]func(*shared, chan<- failure) error{
		"without a context": func(s *shared, told chan<- failure) error {
			return s.SetWatchErrorHandler(func(r *cache.Reflector, err error) { told <- failure{r, err} })
		},
		"with a context": func(s *shared, told chan<- failure) error {
			return s.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
				assert.NoError(t, ctx.Err())
				cache.DefaultWatchErrorHandler(ctx, r, err) // reads the reflector's name
				told <- failure{r, err}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				server.Inject(reflectortest.Answer(403).On("", "configmaps").Times(1))
				s := NewTyped(configMaps(t, server), WithInformer(informer.WithReflector(reflector.WithoutWatchList())))
				told := make(chan failure, 1)
				require.NoError(t, set(s, told))
				run(t, s)
				got := <-told
				assert.True(t, apierrors.IsForbidden(got.err), "%v", got.err)
				assert.ErrorAs(t, got.err, new(*reflector.Error))
				assert.NotNil(t, got.reflector)
				<-s.HasSyncedChecker().Done()
			})
		})
	}
}

// TestFailedWatchListIsOnlyLogged keeps client-go's TestSharedInformerErrorHandling: the handler gets
// the failure of the list, and not that of the watch-list before it.
func TestFailedWatchListIsOnlyLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(403).On("watch", "configmaps").Times(1))
		server.Inject(reflectortest.Answer(500).On("list", "configmaps").Times(1))
		s := NewTyped(configMaps(t, server))
		var told []error
		require.NoError(t, s.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { told = append(told, err) }))
		var log lines
		run(t, withLogger{s, log.logger()})
		<-s.HasSyncedChecker().Done()
		synctest.Wait()
		require.Len(t, told, 1)
		assert.True(t, apierrors.IsInternalError(told[0]), "%v", told[0])
		assert.Empty(t, reported.take())
		require.Len(t, log.read(), 1, "the line goes to the logger of the context")
		assert.Contains(t, log.read()[0], "watch-list: configmaps is forbidden")
	})
}

// TestWatchErrorHandlerHearsOfWatchesThatBreak has what programs may notice that count the calls, for example
// for an alert.
func TestWatchErrorHandlerHearsOfWatchesThatBreak(t *testing.T) {
	featuretesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	busy := metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests} // without a time, for which a clientset would wait
	informers := map[string]func(t *testing.T, server *reflectortest.Server) cache.SharedIndexInformer{
		"client-go's": func(t *testing.T, server *reflectortest.Server) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(listWatch(clientset(t, server)), &configMap{}, 0, nil)
		},
		"ours, client-go decodes": func(t *testing.T, server *reflectortest.Server) cache.SharedIndexInformer {
			return NewSharedIndexInformer(listWatch(clientset(t, server)), &configMap{}, 0, nil)
		},
		"ours": func(t *testing.T, server *reflectortest.Server) cache.SharedIndexInformer {
			resource, err := client.ForType[Object](server.Config(), corev1.SchemeGroupVersion.WithResource("configmaps"), &configMap{})
			require.NoError(t, err)
			return FromClient(resource, cache.SharedIndexInformerOptions{})
		},
	}
	for name, test := range map[string]struct {
		fault reflectortest.Fault
		calls map[string]int
	}{
		"a list fails":            {reflectortest.Answer(500).On("list", "configmaps"), map[string]int{"client-go's": 1, "ours, client-go decodes": 1, "ours": 1}},
		"a watch is forbidden":    {reflectortest.Answer(403).On("watch", "configmaps"), map[string]int{"client-go's": 1, "ours, client-go decodes": 1, "ours": 1}},
		"a watch is one too many": {reflectortest.AnswerStatus(busy).On("watch", "configmaps"), map[string]int{"ours, client-go decodes": 1, "ours": 1}},
		"a watch finds no server": {reflectortest.Refuse().On("watch", "configmaps"), map[string]int{"ours, client-go decodes": 1, "ours": 1}},
		"a watch cannot be read":  {reflectortest.CorruptFrame(1).On("watch", "configmaps"), map[string]int{"ours, client-go decodes": 1, "ours": 1}},
		"a connection breaks":     {reflectortest.ResetAfterEvents(1).On("watch", "configmaps"), map[string]int{"ours": 1}}, // client-go's clients hide it
	} {
		for of, make := range informers {
			t.Run(name+"/"+of, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					met := server.Inject(test.fault.Times(1))
					s := make(t, server)
					var told []error
					require.NoError(t, s.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { told = append(told, err) }))
					run(t, s)
					<-s.HasSyncedChecker().Done()
					create(t, server, named("a"))
					<-time.After(time.Minute)
					assert.Equal(t, 1, met.Hits())
					assert.Equal(t, []string{"default/a"}, s.GetStore().ListKeys())
					assert.Len(t, told, test.calls[of])
				})
			})
		}
	}
}

// TestWatchErrorHandlerDoesNotHearOfAnExpiredWatch keeps tests that fail at any call of the handler: client-go's lists again without one.
func TestWatchErrorHandlerDoesNotHearOfAnExpiredWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("gone"))
		s := NewTyped(configMaps(t, server), WithInformer(informer.WithReflector(reflector.WithoutWatchList())))
		var told []error
		require.NoError(t, s.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { told = append(told, err) }))
		deleted := make(chan any, 1)
		_, err := s.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { deleted <- obj }})
		require.NoError(t, err)
		run(t, s)
		<-s.HasSyncedChecker().Done()
		relist(t, server, func() { require.NoError(t, server.Delete(named("gone"))) })
		assert.IsType(t, cache.DeletedFinalStateUnknown{}, <-deleted)
		for _, err := range told { // the requests that relist refuses
			assert.False(t, apierrors.IsResourceExpired(err), "%v", err)
		}
	})
}

// TestWatchErrorHandlerLearnsThatTheResourceIsNotServed serves programs that stop an informer when its
// CustomResourceDefinition is gone.
func TestWatchErrorHandlerLearnsThatTheResourceIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(404).On("", "configmaps").Times(1))
		s := NewTyped(configMaps(t, server))
		var told []error
		require.NoError(t, s.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { told = append(told, err) }))
		run(t, s)
		<-s.HasSyncedChecker().Done()
		synctest.Wait()
		require.Len(t, told, 1)
		assert.True(t, apierrors.IsNotFound(told[0]), "%v", told[0])
	})
}

func TestUsualWatchErrorHandlerIsClientGos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(403).On("", "configmaps").Times(1))
		s := NewTyped(configMaps(t, server), WithInformer(informer.WithReflector(reflector.WithoutWatchList())))
		require.NoError(t, s.SetWatchErrorHandler(func(*cache.Reflector, error) { t.Error("it was taken back") }))
		require.NoError(t, s.SetWatchErrorHandler(nil))
		run(t, s)
		<-s.HasSyncedChecker().Done()
		errs := reported.take()
		require.Len(t, errs, 1)
		assert.True(t, apierrors.IsForbidden(errs[0]), "%v", errs[0])
	})
}

func TestHooksThatComeTooLateOrNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		identity := func(object any) (any, error) { return object, nil }
		s := NewTyped(configMaps(t, server))
		require.NoError(t, s.SetTransform(identity))
		require.NoError(t, s.SetTransform(nil))
		create(t, server, named("a"))
		run(t, s)
		synctest.Wait()
		assert.Len(t, s.GetStore().ListKeys(), 1)
		assert.ErrorIs(t, s.SetTransform(identity), ErrStarted)
		assert.ErrorIs(t, s.SetWatchErrorHandler(func(*cache.Reflector, error) {}), ErrStarted)

		shown := AsSharedIndexInformer(informer.New(configMaps(t, server)))
		for method, err := range map[string]error{
			"SetTransform":         shown.SetTransform(identity),
			"SetWatchErrorHandler": shown.SetWatchErrorHandler(nil),
		} {
			unsupported, ok := errors.AsType[*UnsupportedError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, method, unsupported.Method)
			assert.Contains(t, err.Error(), "informer.")
		}
	})
}

func TestTransformComesTooLateWhoeverRunsTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"))
		s := NewTyped(configMaps(t, server))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Informer().Run(ctx) }()
		synctest.Wait()
		var m marking
		assert.ErrorIs(t, s.SetTransform(m.transform), ErrStarted)
		cancel()
		<-ended
	})
}

func TestPanicOfAWatchErrorHandlerIsToldAndSurvived(t *testing.T) {
	caught := catchPanics(t, false)
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.Answer(403).On("", "configmaps").Times(1))
		s := NewTyped(configMaps(t, server), WithInformer(informer.WithReflector(reflector.WithoutWatchList())))
		require.NoError(t, s.SetWatchErrorHandler(func(*cache.Reflector, error) { panic("oh") }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.NotPanics(t, func() { s.RunWithContext(ctx) })
		assert.Equal(t, 1, caught.count())
		assert.True(t, s.HasSynced())
	})
}

// panics says what happens to panics until the end of the test, and writes them down.
type panics struct {
	mu   sync.Mutex
	seen []any
	ctxs []context.Context
}

func catchPanics(t *testing.T, reallyCrash bool) *panics {
	p := &panics{}
	crash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = crash, handlers })
	utilruntime.ReallyCrash = reallyCrash
	utilruntime.PanicHandlers = []func(context.Context, any){p.note}
	return p
}

func (p *panics) note(ctx context.Context, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.ctxs = append(p.seen, value), append(p.ctxs, ctx)
}

func (p *panics) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// unsteady panics in the first calls.
type unsteady struct {
	diary
	left int
}

func (u *unsteady) OnAdd(object any, initial bool) {
	if u.left--; u.left >= 0 {
		panic("oh")
	}
	u.diary.OnAdd(object, initial)
}

func TestPanicOfAHandlerIsRetriedAndNobodyElsesBusiness(t *testing.T) {
	caught := catchPanics(t, true)
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		var mu sync.Mutex
		var failures []error
		s := NewTyped(configMaps(t, server), WithInformer(informer.WithErrorHandler(func(_ context.Context, err error) {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
		})))
		bad, good := &unsteady{left: 3}, &diary{}
		handle, err := s.AddEventHandler(bad)
		require.NoError(t, err)
		_, err = s.AddEventHandler(good)
		require.NoError(t, err)
		stop := run(t, s)
		synctest.Wait()
		assert.Equal(t, []string{"initial a", "initial b"}, good.read())
		assert.True(t, handle.HasSynced(), "a panic does not hold it up")
		assert.Equal(t, 2, caught.count())

		<-time.After(time.Minute)
		stop()
		assert.Equal(t, 3, caught.count())
		assert.Equal(t, []any{"oh", "oh", "oh"}, caught.seen)
		assert.ElementsMatch(t, []string{"initial a", "initial b"}, bad.read(), "nothing is skipped")
		require.Len(t, failures, 3)
		_, ok := errors.AsType[*eventqueue.HandlerError](failures[0])
		assert.True(t, ok, "%v", failures[0])
	})
}

func TestPanicIsSkippedIfTheProgramSaysSo(t *testing.T) {
	caught := catchPanics(t, false)
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		s := NewTyped(configMaps(t, server))
		bad := &unsteady{left: 1}
		handle, err := s.AddEventHandler(bad)
		require.NoError(t, err)
		run(t, s)
		<-time.After(time.Hour)
		assert.Equal(t, 1, caught.count())
		assert.Equal(t, []string{"initial b"}, bad.read())
		assert.True(t, handle.HasSynced())
	})
}

func TestPanicIsLoggedByTheLoggerOfItsHandlerOrOfRun(t *testing.T) {
	caught := catchPanics(t, false)
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		for _, own := range []bool{false, true} {
			s := NewTyped(configMaps(t, server))
			var options cache.HandlerOptions
			if own {
				options.Logger = zero(options.Logger)
			}
			_, err := s.AddEventHandlerWithOptions(&unsteady{left: 1}, options)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "Run's"))
			ended := make(chan struct{})
			go func() { defer close(ended); s.RunWithContext(ctx) }()
			synctest.Wait()
			cancel()
			<-ended
		}
		require.Equal(t, 2, caught.count())
		assert.Equal(t, "Run's", caught.ctxs[0].Value(key{}))
		assert.Nil(t, caught.ctxs[1].Value(key{}), "its own logger comes in a context of its own")
	})
}

// zero returns a pointer to a zero value of the type that another pointer has.
func zero[X any](*X) *X { return new(X) }

func TestLinesOfClientGosHandlersGoToTheLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		core, lines := observer.New(zap.ErrorLevel)
		s := NewTyped(configMaps(t, server),
			WithInformer(informer.WithName("maps"), informer.WithLogger(zap.New(core))))
		_, err := s.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("ouch") }})
		require.NoError(t, err)
		run(t, s)
		<-time.After(time.Millisecond)
		observed := lines.FilterMessage("Observed a panic").All()
		require.NotEmpty(t, observed)
		assert.Equal(t, "maps", observed[0].ContextMap()["informer"])
		assert.Equal(t, "ouch", observed[0].ContextMap()["panic"])
	})
}
