package reconcile

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestStopFinishesWhatWaitsAndSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"), configMap("c"))
		var got list
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			<-time.After(time.Second)
			got.add(key.Name)
			if key.Name == "b" {
				return Result{}, errors.New("ouch")
			}
			return Result{RequeueAfter: time.Hour}, ctx.Err()
		}))
		synctest.Wait()
		err := stop()
		assert.Equal(t, []string{"a", "b", "c", "b"}, got.take(), "the back-off of b is over while c is reconciled")
		var left *eventqueue.DrainError
		require.ErrorAs(t, err, &left)
		require.Len(t, left.Pending, 1)
		assert.Equal(t, "b", left.Pending[0].Key.Name)
		assert.EqualError(t, left.Pending[0].Err, "ouch")
		assert.NoError(t, left.Cause)
	})
}

func TestStopHasALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"))
		calls, reported := 0, 0
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			calls++
			<-ctx.Done()
			return Result{}, context.Cause(ctx)
		}, WithDrainTimeout(time.Minute), WithErrorHandler(func(context.Context, error) { reported++ })))
		synctest.Wait()
		before := time.Now()
		err := stop()
		assert.Equal(t, time.Minute, time.Since(before))
		assert.Equal(t, 1, calls)
		assert.Zero(t, reported, "to be told to end is no failure")
		var left *eventqueue.DrainError
		require.ErrorAs(t, err, &left)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, left.Pending, 2)
	})
}

func TestRunAgainReconcilesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"))
		var got list
		r := New("test", w.configMaps, got.noting())
		stopInformers := runMember(t, w.configMaps)
		for range 2 {
			stop := runMember(t, r)
			synctest.Wait()
			require.NoError(t, stop())
			assert.Equal(t, []string{"a", "b"}, sorted(got.take()))
		}
		w.touch("a", "1")
		synctest.Wait()
		assert.Empty(t, got.take(), "it does not run")
		lists := len(w.server.Requests(reflectortest.Verb("list"))) + len(w.server.Requests(reflectortest.Verb("watch")))
		assert.Equal(t, 1, lists, "nothing is read again")
		require.NoError(t, stopInformers())
	})
}

func TestKeyWhoseCacheIsLateIsReconciledBeforeRunReturns(t *testing.T) {
	for name, late := range map[string]time.Duration{"while others finish": time.Second, "after all others": 7 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				release := w.deafen(1)
				w.create(configMap("a"))
				var got list
				secure := w.securing(&got)
				stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
					if key.Name == "b" {
						<-time.After(5 * time.Second)
						return Result{}, nil
					}
					return secure(ctx, key)
				}, w.ofSecrets))
				synctest.Wait()
				w.touch("a", "1")
				w.create(configMap("b"))
				synctest.Wait()
				time.AfterFunc(late, release)
				assert.NoError(t, stop())
				assert.Equal(t, []string{"a0", "a1"}, got.take())
			})
		})
	}
}

func TestKeyWhoseCacheIsLateIsLeftWhenItsInformerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.deafen(1)()
		w.create(configMap("a"))
		var got list
		r := New("test", w.configMaps, withObject(w.securing(&got)), w.ofSecrets)
		stopConfigMaps, stopSecrets, stop := runMember(t, w.configMaps), runMember(t, w.secrets), runMember(t, r)
		synctest.Wait()
		w.touch("a", "1")
		synctest.Wait()
		time.AfterFunc(time.Second, func() { assert.NoError(t, stopSecrets()) })
		began := time.Now()
		var left *eventqueue.DrainError
		require.ErrorAs(t, stop(), &left)
		assert.Equal(t, time.Second, time.Since(began), "there is nothing to wait for")
		require.Len(t, left.Pending, 1)
		assert.Equal(t, "a", left.Pending[0].Key.Name)
		assert.NoError(t, left.Cause)
		assert.Equal(t, []string{"a0"}, got.take())
		require.NoError(t, stopConfigMaps())
	})
}

func TestWhatOthersDidDuringTheLastCallIsReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"))
		var got list
		stop := w.run(New("test", w.configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			<-time.After(time.Second)
			got.add(key.Name)
			return Result{}, nil
		}, IgnoreOwnWrites(), WithWorkers(2)))
		synctest.Wait()
		w.touch("a", "1")
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []string{"a", "a", "b"}, sorted(got.take()))
	})
}

func TestKeyWaitsForWhatAnEarlierRunWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := w.deafen(1)
		w.create(configMap("a"), configMap("b"))
		var got list
		r := New("test", w.configMaps, withObject(w.securing(&got)), w.ofSecrets, WithDrainTimeout(time.Millisecond))
		stop := w.run(runFunc(func(ctx context.Context) error {
			for range 3 {
				running, end := context.WithCancel(ctx)
				time.AfterFunc(time.Second, end)
				if err := r.Run(running); err == nil { // the first leaves nothing to do
					assert.Equal(t, []string{"a0", "b0"}, sorted(got.take()))
				}
			}
			assert.Empty(t, got.take(), "the cache has no Secret yet")
			release()
			return r.Run(ctx)
		}))
		<-time.After(10 * time.Second)
		assert.Equal(t, []string{"a1", "b1"}, slices.Compact(sorted(got.take())))
		require.NoError(t, stop())
		assert.Empty(t, r.unseen)
	})
}

// looking is an observer and an error handler that look whether a lock is held.
type looking struct {
	run   *run
	asked atomic.Int64
	held  atomic.Int64
}

func (l *looking) look() {
	l.asked.Add(1)
	if l.run != nil && !l.run.mu.TryLock() {
		l.held.Add(1)
		return
	}
	if l.run != nil {
		l.run.mu.Unlock()
	}
}

func (l *looking) Triggered(context.Context, Trigger) { l.look() }

func (l *looking) Reconciling(ctx context.Context, _ Call) (context.Context, func(Result, error)) {
	l.look()
	return ctx, func(Result, error) { l.look() }
}

func TestNothingOfTheUserIsCalledUnderALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := w.deafen(1)
		look := &looking{}
		var got list
		secure, failures := w.securing(&got), 0
		o := newOptions([]Option{w.ofSecrets, WithObserver(look), WithErrorHandler(func(context.Context, error) { look.look() }), IgnoreOwnWrites()})
		r := newRun(t.Context(), &o, "test", func(ctx context.Context, key store.Key) (Result, error) {
			<-time.After(time.Second)
			look.look()
			if failures++; failures == 1 {
				return Result{}, errors.New("ouch")
			}
			_, err := secure(ctx, key)
			return Result{RequeueAfter: time.Hour}, err
		}, o.sources)
		defer r.close()
		look.run = r
		stop := w.run(runFunc(func(ctx context.Context) error {
			<-w.secrets.Synced()
			_ = r.work(ctx, func() {})
			return nil
		}))
		a := trigger{key: store.Key{Namespace: "ns", Name: "a"}, cause: &cause{ctx: t.Context()}}
		r.trigger(a)
		<-time.After(time.Second / 2)
		r.trigger(a) // during the call
		<-time.After(10 * time.Second)
		r.trigger(a) // it is held
		<-time.After(10 * time.Second)
		release()
		<-time.After(10 * time.Second)
		require.NoError(t, stop())
		assert.Equal(t, []string{"a0", "a1"}, got.take())
		assert.GreaterOrEqual(t, look.asked.Load(), int64(12))
		assert.Zero(t, look.held.Load())
	})
}

func TestErrorHookThatEndsItsGoroutineChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		calls := 0
		stop := w.run(New("test", w.configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (Result, error) {
			if calls++; calls < 3 {
				return Result{}, errors.New("ouch")
			}
			return Result{}, nil
		}, WithErrorHandler(func(context.Context, error) { runtime.Goexit() })))
		<-time.After(time.Minute)
		assert.NoError(t, stop())
		assert.Equal(t, 3, calls)
	})
}

func TestReconcilerLogsTheInformersThatDoNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.logTo()
		stop := h.startAlone()
		<-time.After(9 * time.Second)
		require.Empty(t, h.lines.All(), "they may be about to start")
		<-time.After(time.Hour)
		fields, _ := h.logged(notRunning)
		assert.Equal(t, "test", fields["reconciler"])
		assert.Equal(t, []any{"*v1.ConfigMap", "secrets"}, fields["informers"])
		require.NoError(t, stop())
	})
}

func TestReconcilerDoesNotLogInformersThatRunButAreNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.logTo()
		h.server.Inject(reflectortest.Stall(nil))
		stop := h.start()
		<-time.After(time.Minute)
		assert.Zero(t, h.lines.FilterMessage(notRunning).Len())
		require.NoError(t, stop())
	})
}

// The tests of package controller hold what a hard stop does; this one, that it reaches the drain of
// a reconciler.
func TestHardStopEndsADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"))
		var causes []error
		r := New("test", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return Result{}, ctx.Err()
		}, WithDrainTimeout(time.Hour))
		running, end := context.WithCancel(t.Context())
		stoppable, hardStop := controller.HardStopContext(running)
		stop := w.run(runFunc(func(context.Context) error { return r.Run(stoppable) }))
		synctest.Wait()
		end()
		<-time.After(time.Minute)
		assert.Empty(t, causes, "it has time to finish")
		before := time.Now()
		hardStop()
		var left *eventqueue.DrainError
		require.ErrorAs(t, stop(), &left)
		assert.Zero(t, time.Since(before))
		assert.Equal(t, []error{controller.ErrStopNow}, causes)
		assert.Equal(t, controller.ErrStopNow, left.Cause)
		assert.Len(t, left.Pending, 2)
	})
}

// BenchmarkKey is a key's way from a trigger to the end of a call that does nothing.
func BenchmarkKey(b *testing.B) {
	for name, opts := range map[string][]Option{"own writes count": nil, "own writes do not": {IgnoreOwnWrites()}} {
		b.Run(name, func(b *testing.B) {
			var calls sync.WaitGroup
			o := newOptions(opts)
			r := newRun(b.Context(), &o, "bench", func(context.Context, store.Key) (Result, error) {
				calls.Done()
				return Result{}, nil
			}, nil)
			ctx, stop := context.WithCancel(b.Context())
			var working sync.WaitGroup
			working.Go(func() { _ = r.work(ctx, func() {}) })
			defer func() { stop(); working.Wait(); r.close() }()
			keys := make([]store.Key, 1000)
			for i := range keys {
				keys[i] = store.Key{Namespace: "ns", Name: strconv.Itoa(i)}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += len(keys) {
				calls.Add(len(keys))
				for _, key := range keys {
					r.trigger(trigger{key: key})
				}
				calls.Wait()
			}
		})
	}
}
