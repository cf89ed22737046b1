package reflector

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestFailuresOfTheClientAreNoContact(t *testing.T) {
	for name, events := range map[string][]watch.Event{"the end": nil, "an event that the client made": {errorEvent(errUndecoded())}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := new(script).list("10", "")
				api.watches = append(api.watches, func() (watch.Interface, error) {
					w := api.stream(nil)
					time.AfterFunc(time.Minute, func() {
						for _, e := range events {
							w.result <- e
						}
						w.Stop()
					})
					return w, nil
				})
				for range 10 {
					api.watchFails(errors.New("no route"))
				}
				r := New(api, newStore())
				began := time.Now()
				stop := running(t, r)
				<-time.After(time.Minute)
				synctest.Wait()
				assert.Equal(t, Opening, r.State().Phase)
				assert.Equal(t, began, r.State().Contact)
				require.NoError(t, stop())
			})
		})
	}
}

func TestStoreThatFailedIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.streams = true
		closing := bookmark("10")
		closing.Object.(*corev1.ConfigMap).Annotations = map[string]string{"k8s.io/initial-events-end": "true"}
		api.watchOpen(closing)
		var r *KubernetesResourceReflector[*corev1.ConfigMap]
		var phases []Phase
		r = New(api, &failingReplace{Store: newStore()}, WithErrorHook(func(context.Context, error) { phases = append(phases, r.State().Phase) }))
		stop := running(t, r)
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, []Phase{Listing}, phases, "it never watched")
	})
}

// failingReplace is a store that takes no list.
type failingReplace struct {
	store.Store[*corev1.ConfigMap]
}

func (s *failingReplace) Replace([]*corev1.ConfigMap, string) error { return errors.New("disk full") }

func TestStagingTakesBackWhatCameOfARefusedList(t *testing.T) {
	s := newStore()
	staged := staging[*corev1.ConfigMap]{to: s}
	staged.add(configMap("a", "u", "1"))
	staged.add(configMap("b", "v", "2"))
	staged.add(configMap("c", "w", "3"))
	staged.shrink(1)
	require.Equal(t, 1, staged.size())
	require.NoError(t, staged.replace("4"))
	assert.Equal(t, "a@1", contents(s))
}
