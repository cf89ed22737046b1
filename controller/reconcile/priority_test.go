package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

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
