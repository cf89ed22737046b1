package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestKeysOfChangedObjectsAndOfTheirOwnersAreReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"), secret("s", "c"))
		var got list
		stop := w.run(New("test", w.configMaps, got.noting(), w.ofSecrets))
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c"}, sorted(got.take()), "all that is there, and an owner that is not")

		w.touch("a", "1")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, got.take())

		w.update(secret("s", "b"))
		synctest.Wait()
		assert.Equal(t, []string{"b", "c"}, sorted(got.take()), "the owner, and the one that it had")

		require.NoError(t, w.server.Delete(secret("s", "b")))
		require.NoError(t, w.server.Delete(configMap("a")))
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, sorted(got.take()))
		require.NoError(t, stop())
	})
}

func TestOwnersInBetweenAreHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(secret("s", "a"))
		var got list
		slow := Watch(w.secrets, func(s *corev1.Secret) []store.Key {
			<-time.After(time.Second)
			return []store.Key{{Name: s.OwnerReferences[0].Name}}
		})
		stop := w.run(New("test", w.configMaps, got.noting(), slow))
		<-time.After(time.Minute)
		got.take()
		for _, owner := range []string{"b", "c", "d"} {
			w.update(secret("s", owner))
		}
		<-time.After(time.Minute)
		assert.Subset(t, got.take(), []string{"a", "b", "c", "d"})
		require.NoError(t, stop())
	})
}

func TestNobodyIsCalledBeforeAllInformersAreSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		release := make(chan struct{})
		w.server.Inject(reflectortest.Stall(release).On("watch", "secrets"))
		var got list
		r := New("test", w.configMaps, got.noting(), w.ofSecrets)
		stop := w.run(r)
		<-time.After(5 * time.Second)
		assert.Empty(t, got.take())
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.WaitForSync(short)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		var lacking *informer.SyncError
		require.ErrorAs(t, err, &lacking)
		assert.Equal(t, "*v1.Secret", lacking.Informer)

		close(release)
		require.NoError(t, r.WaitForSync(t.Context()))
		<-r.Synced()
		synctest.Wait()
		assert.Equal(t, []string{"a"}, got.take())
		assert.NoError(t, r.Ready())
		require.NoError(t, stop())
	})
}

// Run waits on: the informer's Run may be called again.
func TestWaitForSyncOfAReconcilerEndsWithAFailureOfAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noRetry := informer.WithReflector(reflector.WithRetry(func(error) bool { return false }))
		w := newWorld(t, informer.WithName("secrets"), noRetry)
		w.create(configMap("a"))
		forbidden := w.server.Inject(reflectortest.Answer(403).On("", "secrets"))
		release := make(chan struct{})
		w.server.Inject(reflectortest.Stall(release).On("", "configmaps"))
		var got list
		r := New("test", w.configMaps, got.noting(), w.ofSecrets)
		stop := runMember(t, r)
		early := make(chan error, 1)
		go func() { early <- r.WaitForSync(t.Context()) }()
		synctest.Wait()
		informing, end := context.WithCancel(t.Context())
		defer end()
		running := make(chan error, 2)
		go func() { running <- w.configMaps.Run(informing) }() // an informer that gets no answer hides nothing
		require.True(t, apierrors.IsForbidden(w.secrets.Run(informing)))
		err := <-early
		require.True(t, apierrors.IsForbidden(err))
		assert.ErrorContains(t, err, "reconciler test: informer secrets is not synced")
		assert.True(t, apierrors.IsForbidden(r.WaitForSync(t.Context())), "also for those who come later")

		forbidden.Remove()
		close(release)
		go func() { running <- w.secrets.Run(informing) }()
		synctest.Wait()
		require.NoError(t, r.WaitForSync(t.Context()))
		synctest.Wait()
		assert.Equal(t, []string{"a"}, got.take())
		require.NoError(t, stop())
		end()
		require.NoError(t, errors.Join(<-running, <-running))
		require.NoError(t, r.WaitForSync(informing), "it has begun, whatever happens then")
	})
}

func TestReconcilerThatCannotRunDoesNotWait(t *testing.T) {
	var none *informer.Informer[*corev1.ConfigMap]
	r := New("test", none, (&list{}).noting())
	assert.ErrorIs(t, r.WaitForSync(t.Context()), controller.ErrIncomplete)
}

func TestReconcilerThatNeverSyncedEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := New("test", w.configMaps, (&list{}).noting())
		assert.ErrorContains(t, r.Ready(), "test")
		stop := runMember(t, r)
		synctest.Wait()
		assert.ErrorIs(t, r.Run(t.Context()), controller.ErrRunning)
		assert.NoError(t, stop())
	})
}

func TestFailedKeysComeAgainAndDelayNoOther(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("ouch") },
		"panic": func() error { panic("ouch") },
		"exit":  func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.create(configMap("a"), configMap("b"))
				core, logs := observer.New(zap.ErrorLevel)
				var failures []*eventqueue.HandlerError // one worker, which has ended when they are read
				var got list
				calls := 0
				r := New("test", w.configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
					if key.Name == "a" {
						if calls++; calls < 4 {
							return Result{}, fail()
						}
					}
					got.add(key.Name)
					return Result{}, nil
				}, WithLogger(zap.New(core)), WithErrorHandler(func(_ context.Context, err error) {
					var failure *eventqueue.HandlerError
					if errors.As(err, &failure) {
						failures = append(failures, failure)
					}
				}), WithQueue(eventqueue.WithBackoff(time.Second, time.Minute)))
				stop := w.run(r)
				synctest.Wait()
				assert.Equal(t, []string{"b"}, got.take())
				<-time.After(3400 * time.Millisecond)
				assert.Empty(t, got.take(), "at least the halves of 1 s, 2 s and 4 s")
				<-time.After(3700 * time.Millisecond)
				assert.Equal(t, []string{"a"}, got.take())
				require.NoError(t, stop())
				require.Len(t, failures, 3)
				assert.Equal(t, 3, failures[2].Attempt)
				assert.InDelta(t, 3*time.Second, failures[2].RetryIn, float64(time.Second))
				assert.Equal(t, "ns/a", failures[2].Key.String())
				assert.Equal(t, name == "exit", errors.Is(failures[0], eventqueue.ErrAbandoned))
				if name != "error" {
					panicked, _ := errors.AsType[*eventqueue.PanicError](failures[0])
					assert.Contains(t, string(panicked.Stack), "reconciler_test.go")
				}
				assert.Equal(t, 3, logs.Len())
			})
		})
	}
}

func TestBackoffBeginsAnewAfterASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var calls atomic.Int64
		attempts := list{}
		stop := w.run(New("test", w.configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (Result, error) {
			if n := calls.Add(1); n%4 != 0 {
				return Result{}, fmt.Errorf("call %d", n)
			}
			return Result{}, nil
		}, WithErrorHandler(func(_ context.Context, err error) { attempts.add(err.Error()) }),
			WithQueue(eventqueue.WithBackoff(time.Second, time.Hour))))
		for range 2 {
			<-time.After(7100 * time.Millisecond) // 1 s, 2 s and 4 s
			got := attempts.take()
			require.Len(t, got, 3)
			assert.Contains(t, got[2], "attempt 3")
			assert.Zero(t, calls.Load()%4)
			w.touch("a", got[2])
			synctest.Wait()
		}
		require.Error(t, stop())
	})
}

func TestKeysThatFailedForGoodComeWhenSomethingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		calls, reported := 0, 0
		stop := w.run(New("test", w.configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (Result, error) {
			calls++
			return Result{RequeueAfter: time.Second}, eventqueue.Permanent(errors.New("never"))
		}, WithErrorHandler(func(context.Context, error) { reported++ })))
		<-time.After(time.Hour)
		synctest.Wait()
		assert.Equal(t, 1, calls)
		w.touch("a", "1")
		synctest.Wait()
		assert.Equal(t, 2, calls)
		require.NoError(t, stop(), "nothing is left")
		assert.Equal(t, 2, reported)
	})
}

func TestKeysAreReconciledAgainAfterTheTimeTheyAskFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		begin, calls := time.Now(), list{}
		stop := w.run(New("test", w.configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (Result, error) {
			calls.add(time.Since(begin).Round(time.Second).String())
			if time.Since(begin) > 90*time.Second {
				return Result{}, nil
			}
			return Result{RequeueAfter: time.Minute}, nil
		}))
		<-time.After(time.Hour)
		assert.Equal(t, []string{"0s", "1m0s", "2m0s"}, calls.take())
		require.NoError(t, stop())
	})
}

func TestCallsHaveALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var causes []error
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
			if len(causes) == 0 {
				<-ctx.Done()
				causes = append(causes, context.Cause(ctx))
				return Result{}, ctx.Err()
			}
			return Result{}, nil
		}, WithTimeout(time.Second)))
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Equal(t, []error{context.DeadlineExceeded}, causes)
	})
}

func TestOneWorkerAKeyAndManyInAll(t *testing.T) {
	for n, want := range map[int]int{0: 1, 1: 1, 2: 2, 9: 3} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.create(configMap("a"), configMap("b"), configMap("c"))
			release, running := make(chan struct{}), make(chan struct{}, 9)
			stop := w.run(New("test", w.configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (Result, error) {
				running <- struct{}{}
				<-release
				return Result{}, nil
			}, WithWorkers(n)))
			synctest.Wait()
			w.touch("a", "1")
			synctest.Wait()
			assert.Len(t, running, want, "%d workers", n)
			close(release)
			require.NoError(t, stop())
		})
	}
}

func TestIncompleteReconcilersSaySo(t *testing.T) {
	var got list
	var none *informer.Informer[*corev1.ConfigMap]
	some := informer.New(newWorld(t).client.CoreV1().ConfigMaps(""))
	for missing, r := range map[string]*Reconciler[*corev1.ConfigMap]{
		"informer of *v1.ConfigMap": New("test", none, got.noting()),
		"reconcile function":        New("test", some, nil),
		"informer of *v1.Pod":       New("test", some, got.noting(), Watch((*informer.Informer[*corev1.Pod])(nil), ByLabel[*corev1.Pod]("x"))),
		"mapping of *v1.ConfigMap":  New("test", some, got.noting(), Watch(some, nil)),
	} {
		err := r.Run(t.Context())
		assert.ErrorIs(t, err, controller.ErrIncomplete)
		assert.EqualError(t, err, "reconciler test: "+missing+": required argument is nil")
		assert.Equal(t, err, r.Ready())
	}
}

func TestStatsOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"), configMap("c"))
		r := New("test", w.configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			switch key.Name {
			case "a":
				return Result{RequeueAfter: time.Hour}, nil
			case "b":
				<-time.After(time.Second)
			}
			return Result{}, nil
		})
		assert.Zero(t, r.Stats())
		stop := w.run(r)
		synctest.Wait()
		stats := r.Stats()
		assert.Equal(t, 3, stats.Keys)
		assert.Equal(t, 1, stats.InFlight)
		assert.Equal(t, 1, stats.Delayed)
		require.NoError(t, stop())
	})
}

func TestEnqueuedKeysAreReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		core, logs := observer.New(zap.WarnLevel)
		var got list
		r := New("test", w.configMaps, got.noting(), WithLogger(zap.New(core)))
		r.Enqueue(store.Key{Namespace: "ns", Name: "early"})
		stop := w.run(r)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, got.take())
		r.Enqueue(store.Key{Namespace: "ns", Name: "a"})
		r.Enqueue(store.Key{Namespace: "ns", Name: "b"})
		r.Enqueue(store.Key{Namespace: "ns"})
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, got.take())
		assert.Equal(t, 1, logs.FilterMessage("key without a name is not queued").Len())
		require.NoError(t, stop())
		r.Enqueue(store.Key{Namespace: "ns", Name: "late"})
		assert.Zero(t, r.Stats().Keys)
	})
}

func TestEventsOfInformersThatComeAndGoQueueKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var got list
		heard := &audience{}
		core, logs := observer.New(zap.WarnLevel)
		r := New("test", w.configMaps, got.noting(), WithObserver(heard), WithLogger(zap.New(core)))
		event := eventqueue.Event[*corev1.Secret]{Type: eventqueue.Addition, Origin: eventqueue.Watch, Key: store.Key{Namespace: "ns", Name: "s"}, Object: secret("s", "")}
		keys := []store.Key{{Namespace: "ns", Name: "a"}, {Namespace: "ns", Name: "b"}, {}, {Namespace: "ns"}}
		ctx := context.WithValue(t.Context(), contextKey{}, "handler")
		EnqueueEvent(ctx, r, event, keys...) // Run does not run
		stop := w.run(r)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, got.take())
		heard.triggers.take()
		EnqueueEvent(ctx, r, event, keys...)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, got.take())
		assert.Equal(t, []string{
			"test: ns/a by Addition ns/s (Watch), handler", "test: ns/b by Addition ns/s (Watch), handler",
		}, heard.triggers.take())
		assert.Equal(t, 2, logs.FilterMessage("key without a name is not queued").Len())
		require.NoError(t, stop())
		EnqueueEvent(ctx, r, event, keys...)
		assert.Zero(t, r.Stats().Keys)
	})
}

func TestKeyThatAskedToComeAgainIsLive(t *testing.T) {
	for want, opts := range map[string][]Option{
		"rarbc": nil,
		"rabcr": {WithQueue(eventqueue.WithPriority(false))},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := ""
			o := newOptions(opts)
			r := newRun(t.Context(), &o, "test", func(_ context.Context, key store.Key) (Result, error) {
				<-time.After(time.Second)
				if got += key.Name; got == "r" {
					return Result{RequeueAfter: time.Millisecond}, nil
				}
				return Result{}, nil
			}, nil)
			for _, name := range []string{"r", "a", "b", "c"} {
				r.trigger(trigger{key: store.Key{Name: name}})
			}
			stop := working(t, r)
			<-time.After(time.Minute)
			require.NoError(t, stop())
			assert.Equal(t, want, got)
		})
	}
}

func TestFailedKeysKeepTheirPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("r")) // it is not live
		got, failed := "", false
		stop := w.run(New("test", w.configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			switch {
			case key.Name == "block":
				<-time.After(time.Minute)
			case !failed:
				failed = true
				return Result{}, errors.New("ouch")
			default:
				got += key.Name
			}
			return Result{}, nil
		}, WithQueue(eventqueue.WithBackoff(time.Second, time.Minute))))
		synctest.Wait()
		w.create(configMap("block"))
		<-time.After(2 * time.Second)
		w.create(configMap("1"), configMap("2"), configMap("3"))
		<-time.After(2 * time.Minute)
		require.NoError(t, stop())
		assert.Equal(t, "123r", got)
	})
}

func TestNewsGoBeforeTheFirstListUnlessToldNotTo(t *testing.T) {
	for want, opts := range map[string][]Option{
		"axbcd": nil,
		"abcdx": {WithQueue(eventqueue.WithPriority(false))},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.create(configMap("a"), configMap("b"), configMap("c"), configMap("d"))
			got := ""
			stop := w.run(New("test", w.configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
				<-time.After(time.Second)
				got += key.Name
				return Result{}, nil
			}, opts...))
			synctest.Wait()
			w.create(configMap("x"))
			<-time.After(time.Minute)
			require.NoError(t, stop())
			assert.Equal(t, want, got)
		})
	}
}

func TestKeyWaitsOnceWhateverTheCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		o := newOptions([]Option{WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll))})
		r := newRun(t.Context(), &o, "test", func(context.Context, store.Key) (Result, error) {
			calls++
			return Result{}, nil
		}, nil)
		for range 1000 {
			r.trigger(trigger{key: store.Key{Name: "a"}})
		}
		assert.Equal(t, 1, r.keys.Stats().Events)
		stop := working(t, r)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, 1, calls)
	})
}
