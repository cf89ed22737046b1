package prometheus_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sumOf returns the sum of a histogram that has one series.
func sumOf(t *testing.T, m prom.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := m.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			require.Len(t, f.GetMetric(), 1)
			sum = f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	return sum
}

func TestWaitingTimeIsThatOfEachSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "good", "fails")
		m, registry := newMetrics()
		maps := mapsOf(t, server, m.Options("maps")...)
		prometheus.Add(m, maps)
		slow := maps.Subscribe(informer.WithName("slow"), informer.WithQueue(eventqueue.WithBackoff(time.Second, time.Second)))
		stop := running(t, maps)
		<-time.After(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		fails := 0
		for e := range slow.Events(ctx) {
			if e.Key.Name == "fails" {
				if fails++; fails == 2 {
					cancel()
				}
			}
		}
		assert.Equal(t, "queue_wait_seconds informer=maps subscriber=slow 2", values(t, registry, "kubereflector_queue_wait_seconds"))
		assert.InDelta(t, 120, sumOf(t, registry, "kubereflector_queue_wait_seconds"), 1e-6)
		require.NoError(t, stop())
	})
}

func TestSeriesOfSubscribersThatAreGoneAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a")
		m, registry := newMetrics()
		maps := mapsOf(t, server, m.Options("maps")...)
		remove := prometheus.Add(m, maps)
		stop := running(t, maps)
		handle := func(name string, handler informer.HandlerFunc[*corev1.ConfigMap]) *informer.Subscription[*corev1.ConfigMap] {
			return maps.Handle(handler, informer.WithName(name))
		}
		release := make(chan struct{})
		waiting := handle("waiting", func(context.Context, eventqueue.Event[*corev1.ConfigMap]) error { <-release; return nil })
		handle("twice", handler)
		one := handle("twice", handler)
		brief := handle("brief", handler)
		synctest.Wait()
		brief.Close() // nobody asked while it was there
		one.Close()
		waiting.Close()
		all := func() string {
			return values(t, registry, "kubereflector_queue_wait_seconds", "kubereflector_handler_duration_seconds")
		}
		assert.Equal(t, strings.Join([]string{
			"handler_duration_seconds informer=maps result=ok subscriber=twice 2", "queue_wait_seconds informer=maps subscriber=twice 2",
		}, "\n"), all())
		close(release)
		<-waiting.Done() // which is measured after the end
		assert.NotContains(t, all(), "waiting")

		require.NoError(t, stop())
		assert.NotEmpty(t, values(t, registry, "kubereflector_list_duration_seconds", "kubereflector_watch_duration_seconds"))
		remove()
		families, err := registry.Gather()
		require.NoError(t, err)
		assert.Empty(t, families)
	})
}

func TestRemovingOneOfTwoInformersOfANameKeepsWhatIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		m, registry := newMetrics()
		first, second := mapsOf(t, server, m.Options("maps")...), mapsOf(t, server, m.Options("maps")...)
		remove := prometheus.Add(m, first)
		prometheus.Add(m, second)
		stop := running(t, second)
		synctest.Wait()
		remove()
		third := mapsOf(t, server, m.Options("maps")...)
		prometheus.Add(m, third)
		remove() // for nothing
		assert.Equal(t, "list_duration_seconds informer=maps reason=ok streamed=true 1", values(t, registry, "kubereflector_list_duration_seconds"))
		assert.Contains(t, values(t, registry, "kubereflector_cache_objects"), "informer=maps 0")
		assert.Contains(t, values(t, registry, "kubereflector_cache_objects"), "informer=maps#2 0")
		require.NoError(t, stop())
	})
}

func TestLagIsTheTimeFromAWriteToTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		m, registry := newMetrics()
		maps := mapsOf(t, server, m.Options("maps")...)
		prometheus.Add(m, maps)
		written := func(name string, ago ...time.Duration) *corev1.ConfigMap {
			made := configMap(name)
			for _, d := range ago {
				made.ManagedFields = append(made.ManagedFields, metav1.ManagedFieldsEntry{
					Manager: "me", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1("{}"), Time: &metav1.Time{Time: time.Now().Add(-d)},
				})
			}
			return made
		}
		require.NoError(t, server.Create(written("listed", time.Hour)))
		leaves := written("leaves", time.Hour)
		leaves.Finalizers = []string{"example.com/wait"}
		require.NoError(t, server.Create(leaves))
		stop := running(t, maps)
		<-time.After(time.Second)
		require.NoError(t, server.Create(written("a", time.Hour, 7*time.Second, time.Minute)))
		require.NoError(t, server.Create(written("early", -time.Hour)))
		require.NoError(t, server.Create(written("unknown")))
		require.NoError(t, server.Delete(configMap("leaves"))) // which its finalizer holds up
		require.NoError(t, server.Delete(configMap("listed")))
		synctest.Wait()
		assert.Equal(t, "event_lag_seconds informer=maps 3", values(t, registry, "kubereflector_event_lag_seconds"))
		assert.InDelta(t, 7, sumOf(t, registry, "kubereflector_event_lag_seconds"), 0.1, "since the last write, and never negative")
		require.NoError(t, stop())
	})
}
