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

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
)

type contextKey struct{}

// audience writes down what it is told.
type audience struct{ triggers, calls, ends list }

func (a *audience) Triggered(ctx context.Context, t Trigger) {
	a.triggers.add(fmt.Sprintf("%s: %v by %v %v (%v), %v", t.Reconciler, t.Key, t.Type, t.Object, t.Origin, ctx.Value(contextKey{})))
}

func (a *audience) Reconciling(ctx context.Context, call Call) (context.Context, func(Result, error)) {
	a.calls.add(fmt.Sprintf("%s: %v, attempt %d", call.Reconciler, call.Key, call.Attempt))
	return context.WithValue(ctx, contextKey{}, "observer"), func(result Result, err error) {
		a.ends.add(fmt.Sprintf("%v %v", result.RequeueAfter, err))
	}
}

// marking gives handlers a context with a value.
type marking struct{}

func (marking) Queues(_, _ string) func(eventqueue.TakeInfo) { return nil }

func (marking) Handling(ctx context.Context, call informer.Handling) (context.Context, func(error)) {
	return context.WithValue(ctx, contextKey{}, call.Subscription), nil
}

func TestObserversAreToldWhyAndHowKeysAreReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, informer.WithObserver(marking{}))
		w.create(configMap("a"))
		first, heard := &audience{}, &audience{}
		ends := []func() (Result, error){
			func() (Result, error) { return Result{}, errors.New("not now") },
			func() (Result, error) { panic("not now either") },
			func() (Result, error) { runtime.Goexit(); return Result{}, nil },
			func() (Result, error) { return Result{RequeueAfter: time.Second}, nil },
			func() (Result, error) { return Result{}, nil },
			func() (Result, error) { return Result{}, nil },
		}
		calls := 0
		r := New("maps", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			assert.Equal(t, "observer", ctx.Value(contextKey{}))
			RecordWrite(ctx, configMap("elsewhere")) // the call is still known
			assert.NotNil(t, callOf(ctx))
			calls++
			return ends[calls-1]()
		}, w.ofSecrets, WithObserver(first), WithObserver(nil), WithObserver(inattentive{}), WithObserver(heard))
		stop := w.run(r)
		<-time.After(time.Minute)
		for _, one := range []*audience{first, heard} {
			assert.Equal(t, []string{"maps: ns/a by Addition ns/a (List), <nil>"}, one.triggers.take())
			assert.Equal(t, []string{
				"maps: ns/a, attempt 1", "maps: ns/a, attempt 2", "maps: ns/a, attempt 3", "maps: ns/a, attempt 4", "maps: ns/a, attempt 1",
			}, one.calls.take())
			assert.Equal(t, []string{
				"0s not now", "0s handler ended by a panic or by runtime.Goexit", "0s handler ended by a panic or by runtime.Goexit", "1s <nil>", "0s <nil>",
			}, one.ends.take())
		}

		w.create(secret("s", "a"))
		<-time.After(time.Minute)
		assert.Equal(t, []string{"maps: ns/a by Addition ns/s (Watch), maps"}, heard.triggers.take(), "with the context of the handler")
		require.NoError(t, stop())
	})
}

// inattentive does not wait for the end of a call.
type inattentive struct{}

func (inattentive) Triggered(context.Context, Trigger) {}

func (inattentive) Reconciling(ctx context.Context, _ Call) (context.Context, func(Result, error)) {
	return ctx, nil
}

func TestObserverNeedNotWaitForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var calls atomic.Int32
		r := New("maps", w.configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (Result, error) {
			return Result{}, errors.Join(map[bool]error{true: errors.New("no")}[calls.Add(1) == 1])
		}, WithObserver(inattentive{}))
		stop := w.run(r)
		<-time.After(time.Minute)
		assert.EqualValues(t, 2, calls.Load())
		require.NoError(t, stop())
	})
}

func TestObserverHearsOfWhatOthersDidDuringACallAndNotOfOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		heard := &audience{}
		calls := 0
		r := New("maps", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			if calls++; calls == 2 {
				before, ours := configMap("a"), configMap("a")
				require.NoError(t, w.server.Get(before))
				w.touch("a", "by us")
				require.NoError(t, w.server.Get(ours))
				ownwrites.Report(ctx, ownwrites.Write{Object: ours, Replaced: before.ResourceVersion})
				<-time.After(time.Second)
				w.create(secret("s", "a"))
				<-time.After(time.Second)
				assert.Empty(t, heard.triggers.take(), "it may be our own")
			}
			return Result{}, nil
		}, w.ofSecrets, IgnoreOwnWrites(), WithObserver(heard))
		stop := w.run(r)
		<-time.After(time.Minute)
		heard.triggers.take()
		w.touch("a", "by others")
		synctest.Wait()
		heard.triggers.take()
		<-time.After(time.Minute)
		assert.Equal(t, []string{"maps: ns/a by Addition ns/s (Watch), <nil>"}, heard.triggers.take())
		require.NoError(t, stop())
		assert.Equal(t, 3, calls)
	})
}

func TestObserverOfAReconcilerIsFreeIfThereIsNone(t *testing.T) {
	w := &watching[*corev1.ConfigMap]{}
	event := eventqueue.Event[*corev1.ConfigMap]{Type: eventqueue.Addition, Origin: eventqueue.Watch, Object: configMap("a"), Key: store.Key{Name: "a"}}
	told := 0
	handler := w.handler(&options{}, func(trigger trigger) { told++; assert.Nil(t, trigger.cause) })
	allocated := testing.AllocsPerRun(100, func() { require.NoError(t, handler(t.Context(), event)) })
	assert.Zero(t, allocated)
	assert.Positive(t, told)
}

func TestLinesOfAReconcilerHaveItsNameAndTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), secret("s", "a"))
		// The key waits for its own write, which the cache does not come to show.
		w.server.Inject(reflectortest.StallAfterEvents(2, nil).On("watch", "configmaps"))
		core, lines := observer.New(zap.InfoLevel)
		stop := w.run(New("painter", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
			Logger(ctx).Info("hello")
			written := configMap("a")
			written.UID, written.ResourceVersion = "u", "999999"
			RecordWrite(ctx, written)
			return Result{}, eventqueue.Permanent(errors.New("ouch"))
		}, WithLogger(zap.New(core)), WithReadYourWritesTimeout(time.Second),
			Watch(w.secrets, func(*corev1.Secret) []store.Key { panic("ouch") }),
			WithErrorHandler(func(ctx context.Context, err error) { Logger(ctx).Info("sorry"); panic("again") })))
		<-time.After(30 * time.Second)
		require.NoError(t, stop())
		keys := map[string][]any{}
		for _, line := range lines.All() {
			assert.Equal(t, "painter", line.ContextMap()["reconciler"], line.Message)
			keys[line.Message] = append(keys[line.Message], line.ContextMap()["key"])
			if line.Level == zap.ErrorLevel {
				assert.NotEmpty(t, line.ContextMap()["resourceVersion"], line.Message)
			}
		}
		assert.Len(t, keys, 6)
		for _, message := range []string{"hello", "sorry", waitsOn, "reconcile failed"} {
			assert.Equal(t, []any{"ns/a"}, keys[message], message)
		}
		assert.Equal(t, []any{"ns/s"}, keys["handler failed"])
		assert.ElementsMatch(t, []any{"ns/a", "ns/s"}, keys["error handler panicked"])
	})
}

func TestReconcileFailureIsLoggedWithTheNextTryAndNoStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fail := range []func() error{
			func() error { return errors.New("ouch") },
			func() error { return eventqueue.Permanent(errors.New("ouch")) },
			func() error { panic("ouch") },
		} {
			h := open(t)
			h.logTo()
			h.create(configMap("a"))
			h.reconcile = func(context.Context, string) error {
				if len(h.calls.peek()) > 1 {
					return nil
				}
				return fail()
			}
			stop := h.start()
			<-time.After(time.Minute)
			require.NoError(t, stop())
			fields, stack := h.logged("reconcile failed")
			assert.Equal(t, "test", fields["reconciler"])
			assert.Equal(t, "ns/a", fields["key"])
			assert.EqualValues(t, 1, fields["attempt"])
			assert.Contains(t, fields["error"], "ouch")
			assert.Empty(t, stack)
			if fields["final"] == true {
				assert.NotContains(t, fields, "nextTry")
			} else {
				assert.InDelta(t, 4*time.Millisecond, fields["nextTry"], float64(2*time.Millisecond))
			}
			if _, panicked := fields["handlerStack"]; panicked {
				assert.Contains(t, fields["handlerStack"], "observer_test.go")
			}
		}
	})
}
