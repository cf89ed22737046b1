package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These tests hold reconcile-R3 for calls that write and fail.

// slow is the back-off of these tests.
var slow = WithQueue(eventqueue.WithBackoff(10*time.Second, time.Minute))

// journal is what calls note for the test, which also reads it while they run.
type journal[E any] struct {
	mu      sync.Mutex // guards entries
	entries []E
}

func (j *journal[E]) add(entry E) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

func (j *journal[E]) read() []E {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

// failing runs a reconciler whose calls write and fail, and returns the number of calls in ten minutes.
func (w *world) failing(write func(ctx context.Context, call int) error, opts ...Option) int {
	w.create(configMap("a"))
	calls := 0
	stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
		calls++
		return Result{}, errors.Join(errors.New("failed"), write(ctx, calls))
	}, append(opts, w.ofSecrets, slow)...))
	<-time.After(10 * time.Minute)
	var left *eventqueue.DrainError
	require.ErrorAs(w.t, stop(), &left)
	return calls
}

func TestWritesOfAFailedCallDoNotEndItsBackoff(t *testing.T) {
	change := func(w *world, ctx context.Context, text string) error {
		c, err := w.client.CoreV1().ConfigMaps("ns").Get(ctx, "a", metav1.GetOptions{})
		if err == nil {
			c.Data = map[string]string{"error": text}
			c, err = w.client.CoreV1().ConfigMaps("ns").Update(ctx, c, metav1.UpdateOptions{})
			RecordWrite(ctx, c)
		}
		return err
	}
	recreate := func(w *world, ctx context.Context, name string) error {
		secrets := w.client.CoreV1().Secrets("ns")
		if old, err := secrets.Get(ctx, name, metav1.GetOptions{}); err == nil {
			if err := secrets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			RecordDelete(ctx, old)
		}
		s, err := secrets.Create(ctx, secret(name, "a"), metav1.CreateOptions{})
		RecordWrite(ctx, s)
		return err
	}
	for name, tc := range map[string]func(w *world, ctx context.Context, call int) error{
		"of its object": func(w *world, ctx context.Context, call int) error { return change(w, ctx, fmt.Sprint(call)) },
		"during a slow call": func(w *world, ctx context.Context, call int) error {
			err := change(w, ctx, fmt.Sprint(call))
			<-time.After(time.Second)
			return err
		},
		"several": func(w *world, ctx context.Context, call int) error {
			return errors.Join(change(w, ctx, fmt.Sprint(call)), change(w, ctx, fmt.Sprint(call, " again")))
		},
		"of objects that it deletes and makes again": func(w *world, ctx context.Context, call int) error {
			return recreate(w, ctx, "s")
		},
		"of more objects than it remembers of earlier calls": func(w *world, ctx context.Context, call int) (err error) {
			for n := range minRemembered + 4 {
				err = errors.Join(err, recreate(w, ctx, fmt.Sprint("s", n)))
			}
			return err
		},
	} {
		for how, opts := range map[string][]Option{
			"": nil, ", ignored": {IgnoreOwnWrites()}, ", not waited for": {WithReadYourWritesTimeout(0)},
		} {
			t.Run(name+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					calls := w.failing(func(ctx context.Context, call int) error { return tc(w, ctx, call) }, opts...)
					assert.GreaterOrEqual(t, calls, 8)
					assert.LessOrEqual(t, calls, 22, "the back-off is at least five seconds, then ten, twenty, thirty")
				})
			})
		}
	}
}

func TestWriteOfAnotherClientEndsABackoffOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var at journal[time.Duration]
		begin := time.Now()
		stop := w.run(New("test", w.configMaps, func(context.Context, store.Key, *corev1.ConfigMap) (Result, error) {
			at.add(time.Since(begin))
			return Result{}, errors.New("failed")
		}, WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour))))
		for n := range 10 {
			<-time.After(time.Minute)
			w.touch("a", fmt.Sprint(n))
		}
		<-time.After(time.Minute)
		require.Len(t, at.read(), 2)
		assert.Equal(t, time.Minute, at.read()[1])
		<-time.After(time.Hour)
		assert.GreaterOrEqual(t, len(at.read()), 3, "what came later is reconciled when the back-off ends")
		require.Error(t, stop())
	})
}

func TestWriteOfASuccessfulCallIsReconciledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var calls atomic.Int32
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, c *corev1.ConfigMap) (Result, error) {
			call := calls.Add(1)
			if call > 2 {
				return Result{}, nil
			}
			c = c.DeepCopy()
			c.Data = map[string]string{"call": fmt.Sprint(call)}
			c, err := w.client.CoreV1().ConfigMaps("ns").Update(ctx, c, metav1.UpdateOptions{})
			require.NoError(t, err)
			RecordWrite(ctx, c)
			if call == 1 {
				return Result{}, errors.New("failed")
			}
			return Result{}, nil
		}, slow))
		<-time.After(time.Second)
		assert.EqualValues(t, 1, calls.Load())
		<-time.After(10 * time.Second)
		assert.EqualValues(t, 3, calls.Load())
		require.NoError(t, stop())
	})
}

func TestNothingIsRememberedOfAFailedKeyAfterASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := newOptions([]Option{w.ofSecrets, WithReadYourWritesTimeout(0), slow})
		calls := 0
		r := newRun(t.Context(), &o, "test", func(ctx context.Context, _ store.Key) (Result, error) {
			calls++
			for n := range 3 * minRemembered {
				one := secret("s", "a")
				one.UID, one.ResourceVersion = "u", fmt.Sprint(calls*1000+n)
				RecordWrite(ctx, one)
			}
			if calls < 4 {
				return Result{}, errors.New("failed")
			}
			return Result{}, nil
		}, o.sources)
		key := store.Key{Name: "a"}
		stop := working(t, r)
		r.trigger(trigger{key: key, live: true})
		<-time.After(30 * time.Second) // the third back-off ends after 35 seconds at least
		r.mu.Lock()
		require.NotNil(t, r.states[key])
		assert.Len(t, r.states[key].failing.wrote, 3*minRemembered)
		r.mu.Unlock()
		<-time.After(10 * time.Minute)
		r.mu.Lock()
		assert.Empty(t, r.states)
		r.mu.Unlock()
		assert.Equal(t, 4, calls)
		require.NoError(t, stop())
	})
}

// TestRetriesInRandomHistories runs calls that fail or succeed, with and without writes of their own,
// among writes of another client.
func TestRetriesInRandomHistories(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { runHistory(t, seed) })
	}
}

func runHistory(t *testing.T, seed uint64) {
	type call struct {
		began, ended time.Time
		failed       bool
	}
	random := rand.New(rand.NewPCG(seed, 7)) // of the writes of another client
	randomOfCalls := rand.New(rand.NewPCG(seed, 8))
	w := newWorld(t)
	w.create(configMap("a"))
	var calls []call
	configMaps := w.client.CoreV1().ConfigMaps("ns")
	stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, _ *corev1.ConfigMap) (Result, error) {
		c := call{began: time.Now(), failed: len(calls) < 20 && randomOfCalls.IntN(4) > 0}
		for range randomOfCalls.IntN(3) {
			if !c.failed {
				break // a success that writes is called again for it
			}
			own, err := configMaps.Get(ctx, "a", metav1.GetOptions{})
			require.NoError(t, err)
			own.Data = map[string]string{"call": fmt.Sprint(len(calls), randomOfCalls.Uint64())}
			own, err = configMaps.Update(ctx, own, metav1.UpdateOptions{})
			require.NoError(t, err)
			RecordWrite(ctx, own)
			<-time.After(time.Duration(randomOfCalls.IntN(2)) * time.Second)
		}
		c.ended = time.Now()
		calls = append(calls, c)
		if c.failed {
			return Result{}, errors.New("failed")
		}
		return Result{}, nil
	}, WithQueue(eventqueue.WithBackoff(time.Minute, time.Minute))))
	var foreign []time.Time
	for range 60 {
		<-time.After(time.Duration(random.IntN(40_000)) * time.Millisecond)
		foreign = append(foreign, time.Now())
		w.touch("a", fmt.Sprint(random.Uint64()))
	}
	<-time.After(time.Hour)
	require.NoError(t, stop())
	for i, c := range calls[:len(calls)-1] {
		if !c.failed {
			continue
		}
		next := calls[i+1]
		hastened := slices.ContainsFunc(foreign, func(at time.Time) bool { return !at.Before(c.ended) && !at.After(next.began) })
		if next.began.Sub(c.ended) < 30*time.Second {
			require.True(t, hastened || i > 0 && calls[i-1].failed, "seed %d: call %d comes early without a reason", seed, i+1)
		}
		// Of three failed calls, one begins a back-off, and only one comes before its end.
		if i+3 < len(calls) && next.failed && calls[i+2].failed {
			require.GreaterOrEqual(t, calls[i+3].began.Sub(c.ended), 30*time.Second, "seed %d: call %d is the second early one", seed, i+3)
		}
	}
	last := calls[len(calls)-1]
	require.False(t, last.failed)
	require.False(t, last.began.Before(foreign[len(foreign)-1]), "seed %d: the last change is not reconciled", seed)
}
