package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// partOf is in which of several shards a key is.
func partOf(key store.Key, of int) int {
	number, _ := strconv.Atoi(key.Name)
	return number % of
}

// calls are those of reconcile functions, of all members.
type calls struct {
	mu      sync.Mutex
	running map[store.Key]string
	by      map[string]int // how often
	last    map[store.Key]string
	clashes []string
}

func (c *calls) begin(key store.Key, who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, ok := c.running[key]; ok {
		c.clashes = append(c.clashes, fmt.Sprintf("%s: %s and %s", key, who, other))
	}
	c.running[key] = who
	c.last[key] = who
	c.by[who]++
}

func (c *calls) end(key store.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, key)
}

func (c *calls) count(who string) (keys int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, last := range c.last {
		if last == who {
			keys++
		}
	}
	return keys
}

// reconciling makes the work of a member: a reconciler of the ConfigMaps of each shard.
func (w *world) reconciling(who string, c *calls) RunFunc {
	clientset, err := kubernetes.NewForConfig(w.server.Config())
	require.NoError(w, err)
	return Working(func(_ context.Context, s Shard) (Work, error) {
		maps := informer.New(clientset.CoreV1().ConfigMaps("default"), informer.WithName(s.String()))
		r := reconcile.New("maps", maps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			if partOf(key, s.Of) != s.Index {
				return reconcile.Result{}, nil
			}
			if got, ok := FromContext(ctx); !ok || got != s || CheckHeld(ctx) != nil {
				return reconcile.Result{}, fmt.Errorf("the context is of %v, %v", got, CheckHeld(ctx))
			}
			c.begin(key, who)
			defer c.end(key)
			<-time.After(time.Second)
			if _, ok := maps.Cache().Get(key); !ok {
				return reconcile.Result{}, errors.New("the cache ended before")
			}
			return reconcile.Result{}, nil
		}, reconcile.WithWorkers(3), reconcile.WithDrainTimeout(0),
			reconcile.WithErrorHandler(func(_ context.Context, err error) { assert.NoError(w, err) }))
		return Work{Caches: maps, Led: r}, nil
	})
}

func TestReconcilersOfTwoMembersNeverHaveTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 8)
		for n := range 40 {
			err := w.server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strconv.Itoa(n)}})
			require.NoError(t, err)
		}
		c := &calls{running: map[store.Key]string{}, by: map[string]int{}, last: map[store.Key]string{}}
		start := func(who string) (stop func()) {
			m, err := New(w.client(), w.group, who, w.reconciling(who, c))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			return func() { cancel(); require.NoError(t, <-ended) }
		}
		stopOne := start("one")
		pass(1500 * time.Millisecond) // some keys have been reconciled, some are just now
		stopTwo := start("two")
		pass(time.Minute)
		assert.Equal(t, 20, c.count("one"))
		assert.Equal(t, 20, c.count("two"))
		stopOne()
		pass(time.Minute)
		assert.Equal(t, 40, c.count("two"))
		stopTwo()
		assert.Empty(t, c.clashes)
	})
}

// runnerFunc is something that runs.
type runnerFunc func(ctx context.Context) error

func (f runnerFunc) Run(ctx context.Context) error { return f(ctx) }

func TestCachesOutliveWhatReadsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		caches := runnerFunc(func(ctx context.Context) error { <-ctx.Done(); order = append(order, "caches"); return nil })
		led := runnerFunc(func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(time.Second)
			order = append(order, "led")
			return nil
		})
		hold := Working(func(context.Context, Shard) (Work, error) { return Work{Caches: caches, Led: led}, nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, hold(ctx, Shard{}))
		assert.Equal(t, []string{"led", "caches"}, order)

		ouch := errors.New("ouch")
		failing := runnerFunc(func(context.Context) error { return ouch })
		hold = Working(func(context.Context, Shard) (Work, error) { return Work{Caches: failing, Led: led}, nil })
		assert.ErrorIs(t, hold(t.Context(), Shard{}), ouch)
		hold = Working(func(context.Context, Shard) (Work, error) { return Work{Caches: caches, Led: failing}, nil })
		assert.ErrorIs(t, hold(t.Context(), Shard{}), ouch)
		hold = Working(func(context.Context, Shard) (Work, error) { return Work{}, ouch })
		assert.ErrorIs(t, hold(t.Context(), Shard{}), ouch)
		hold = Working(func(context.Context, Shard) (Work, error) { return Work{}, nil })
		assert.ErrorIs(t, hold(t.Context(), Shard{}), ErrNoWork)
	})
}

// runs is a Runner of a function.
type runs func(ctx context.Context) error

func (f runs) Run(ctx context.Context) error { return f(ctx) }

func TestWorkEndsWithCachesThatEndTheirGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := Working(func(context.Context, Shard) (Work, error) {
			return Work{
				Caches: runs(func(context.Context) error { runtime.Goexit(); return nil }),
				Led:    runs(func(ctx context.Context) error { <-ctx.Done(); return nil }),
			}, nil
		})
		ended := make(chan error, 1)
		go func() { ended <- hold(t.Context(), Shard{Of: 1}) }()
		synctest.Wait()
		select {
		case err := <-ended:
			require.NoError(t, err)
		default:
			t.Error("nobody would get the shard")
			// Nothing ends it: the bubble says so.
		}
	})
}
