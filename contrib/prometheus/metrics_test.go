package prometheus_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// serve starts a server with ConfigMaps.
func serve(t *testing.T, names ...string) *reflectortest.Server {
	server := reflectortest.Start(t)
	for _, name := range names {
		require.NoError(t, server.Create(configMap(name)))
	}
	return server
}

// newMetrics returns metrics, and a registry that has no others.
func newMetrics() (*prometheus.Metrics, *prom.Registry) {
	m, registry := prometheus.New(), prom.NewPedanticRegistry()
	registry.MustRegister(m)
	return m, registry
}

// running runs an informer or a manager until the returned function is called, which returns its
// error.
func running(t *testing.T, r interface{ Run(context.Context) error }) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

func mapsOf(t *testing.T, server *reflectortest.Server, opts ...informer.Option) *informer.Informer[*corev1.ConfigMap] {
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return informer.New(clientset.CoreV1().ConfigMaps("default"), opts...)
}

// handler handles each object as its name says.
func handler(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
	switch e.Key.Name {
	case "fails":
		return errors.New("no")
	case "never":
		return eventqueue.Permanent(errors.New("never"))
	case "panics":
		panic("ouch")
	}
	return nil
}

// values returns the samples of metrics, one a line.
func values(t *testing.T, m prom.Gatherer, names ...string) string {
	t.Helper()
	families, err := m.Gather()
	require.NoError(t, err)
	var lines []string
	for _, f := range families {
		for _, name := range names {
			if f.GetName() != name {
				continue
			}
			for _, sample := range f.GetMetric() {
				line := strings.TrimPrefix(name, "kubereflector_")
				for _, l := range sample.GetLabel() {
					line += " " + l.GetName() + "=" + l.GetValue()
				}
				value := sample.GetGauge().GetValue() + sample.GetCounter().GetValue() + float64(sample.GetHistogram().GetSampleCount())
				lines = append(lines, line+" "+strconv.FormatFloat(value, 'g', -1, 64))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestMetricsAreThoseOfTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "good", "fails", "never", "panics")
		m, registry := newMetrics()
		pods := mapsOf(t, server, m.Options("pods")...)
		pods.Handle(informer.HandlerFunc[*corev1.ConfigMap](handler), informer.WithName("worker"), informer.WithQueue(eventqueue.WithBackoff(time.Hour, time.Hour)))
		idle := pods.Subscribe(informer.WithName("idle"))
		remove := prometheus.Add(m, pods)
		assert.Contains(t, values(t, registry, "kubereflector_synced", "kubereflector_ready"), "synced informer=pods 0")

		stop := running(t, pods)
		<-time.After(time.Minute)
		require.NoError(t, server.Create(configMap("new")))
		require.NoError(t, server.Delete(configMap("good")))
		synctest.Wait()
		server.Inject(reflectortest.Answer(503).On("watch", ""))
		require.NoError(t, server.Restore(server.ResourceVersion()))
		<-time.After(time.Minute)

		assert.Equal(t, strings.Join([]string{
			"cache_objects informer=pods 4",
			"events_total informer=pods origin=List type=Addition 4",
			"events_total informer=pods origin=Watch type=Addition 1",
			"events_total informer=pods origin=Watch type=Deletion 1",
			"handler_duration_seconds informer=pods result=error subscriber=worker 1",
			"handler_duration_seconds informer=pods result=ok subscriber=worker 3",
			"handler_duration_seconds informer=pods result=panic subscriber=worker 1",
			"handler_duration_seconds informer=pods result=permanent subscriber=worker 1",
			"list_duration_seconds informer=pods reason=ok streamed=true 1",
			"list_objects informer=pods 4",
			"reflectors informer=pods phase=BackingOff 1",
			"reflectors informer=pods phase=Listing 0",
			"reflectors informer=pods phase=Opening 0",
			"reflectors informer=pods phase=Polling 0",
			"reflectors informer=pods phase=Stopped 0",
			"reflectors informer=pods phase=Watching 0",
			"synced informer=pods 1",
		}, "\n"), values(t, registry, "kubereflector_cache_objects", "kubereflector_events_total", "kubereflector_handler_duration_seconds",
			"kubereflector_list_duration_seconds", "kubereflector_list_objects", "kubereflector_reflectors", "kubereflector_synced"))
		queues := values(t, registry, "kubereflector_queue_keys", "kubereflector_queue_delayed", "kubereflector_queue_given_up_total", "kubereflector_queue_panics_total")
		for _, line := range []string{
			"queue_keys informer=pods subscriber=idle 5", "queue_keys informer=pods subscriber=worker 2", "queue_delayed informer=pods subscriber=worker 2",
			"queue_given_up_total informer=pods subscriber=worker 1", "queue_panics_total informer=pods subscriber=worker 1",
		} {
			assert.Contains(t, queues, line)
		}
		assert.Equal(t, 1, testutil.CollectAndCount(m, "kubereflector_watch_duration_seconds"))
		assert.Contains(t, values(t, registry, "kubereflector_watch_broken_seconds"), "watch_broken_seconds informer=pods ")
		assert.NotContains(t, values(t, registry, "kubereflector_watch_broken_seconds"), "pods 0")

		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
		remove()
		assert.Empty(t, values(t, registry, "kubereflector_cache_objects"))
		idle.Close()
		assert.ErrorAs(t, stop(), new(*eventqueue.DrainError), "the worker has failed on one object")
	})
}

func TestServerThatDoesNotAnswerInTimeIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "good")
		server.Inject(reflectortest.Stall(nil).On("list", "").Times(1))
		server.Inject(reflectortest.Refuse().On("list", "").Times(1))
		m, registry := newMetrics()
		config := server.Config()
		config.Timeout = time.Second
		clientset, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		maps := informer.New(clientset.CoreV1().ConfigMaps("default"), append(m.Options("maps"), informer.WithReflector(reflector.WithoutWatchList()))...)
		stop := running(t, maps)
		<-time.After(time.Minute)
		assert.Equal(t, strings.Join([]string{
			"list_duration_seconds informer=maps reason=connection streamed=false 1",
			"list_duration_seconds informer=maps reason=ok streamed=false 1",
			"list_duration_seconds informer=maps reason=timeout streamed=false 1",
		}, "\n"), values(t, registry, "kubereflector_list_duration_seconds"))
		require.NoError(t, stop())
	})
}

func TestObjectsThatACacheRejectsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "good", "bad")
		m, registry := newMetrics()
		scopes := scoped.New(store.ObjectKey[*corev1.ConfigMap], informer.WithName("scopes"))
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		require.NoError(t, scoped.Add(scopes, store.Scope{Namespace: "default"}, clientset.CoreV1().ConfigMaps("default")))
		for _, cache := range []*informer.Informer[*corev1.ConfigMap]{mapsOf(t, server, informer.WithName("maps")), scopes.Informer()} {
			_, err := store.AddIndex(cache.Cache(), "panics", func(c *corev1.ConfigMap) []string {
				if c.Name == "bad" {
					panic("bad")
				}
				return nil
			})
			require.NoError(t, err)
			prometheus.Add(m, cache)
			stop := running(t, cache)
			defer func() { require.NoError(t, stop()) }()
		}
		synctest.Wait()
		assert.Equal(t, "cache_rejected_objects informer=maps 1\ncache_rejected_objects informer=scopes 1", values(t, registry, "kubereflector_cache_rejected_objects"))
	})
}

func TestNamesThatAreTakenDoNotSpoilTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		m, registry := newMetrics()
		for range 2 {
			pods := mapsOf(t, server, informer.WithName("pods"))
			pods.Subscribe(informer.WithName("one"))
			pods.Subscribe(informer.WithName("one"))
			prometheus.Add(m, pods)
		}
		assert.Equal(t, strings.Join([]string{
			"queue_keys informer=pods subscriber=one 0", "queue_keys informer=pods subscriber=one#2 0",
			"queue_keys informer=pods#2 subscriber=one 0", "queue_keys informer=pods#2 subscriber=one#2 0",
		}, "\n"), values(t, registry, "kubereflector_queue_keys"))
	})
}

func TestNamesThatAreNoLabelsDoNotSpoilTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a")
		m, registry := newMetrics()
		pods := mapsOf(t, server, m.Options("pods\xff")...)
		pods.Handle(informer.HandlerFunc[*corev1.ConfigMap](handler), informer.WithName("one\xff"))
		pods.Subscribe(informer.WithName("one\xfe"))
		prometheus.Add(m, pods)
		prometheus.AddReconciler(m, reconcile.New("keys\xff", pods, nil))
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_ = pods.Run(ctx) // nobody pulls
		assert.Equal(t, "queue_keys informer=pods\uFFFD subscriber=one\uFFFD 0\nqueue_keys informer=pods\uFFFD subscriber=one\uFFFD#2 1",
			values(t, registry, "kubereflector_queue_keys"))
		assert.Contains(t, values(t, registry, "kubereflector_handler_duration_seconds"), "informer=pods\uFFFD result=ok subscriber=one\uFFFD 1")
	})
}

func TestSubscribersKeepTheirNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a")
		m, registry := newMetrics()
		pods := mapsOf(t, server, informer.WithName("pods"))
		empty := pods.SubscribeFiltered(func(*corev1.ConfigMap) bool { return false }, informer.WithName("one"))
		pods.Subscribe(informer.WithName("one"))
		prometheus.Add(m, pods)
		assert.NotContains(t, values(t, registry, "kubereflector_contact_age_seconds"), "pods", "nothing was heard of it")
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_ = pods.Run(ctx) // nobody pulls
		assert.Contains(t, values(t, registry, "kubereflector_contact_age_seconds"), "pods")
		empty.Close()
		assert.Equal(t, "queue_keys informer=pods subscriber=one#2 1", values(t, registry, "kubereflector_queue_keys"))
		pods.Subscribe(informer.WithName("one"))
		assert.Contains(t, values(t, registry, "kubereflector_queue_keys"), "subscriber=one#2 1")
		assert.Contains(t, values(t, registry, "kubereflector_queue_keys"), "subscriber=one 1")
	})
}

func TestQueuesOfReconcilers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a", "b")
		m, registry := newMetrics()
		pods := mapsOf(t, server)
		all := manager.New(nil)
		all.Add(pods)
		var once sync.Once
		r := reconcile.New("pods", pods, func(context.Context, store.Key, *corev1.ConfigMap) (result reconcile.Result, err error) {
			once.Do(func() { err = errors.New("not yet") })
			return reconcile.Result{RequeueAfter: time.Hour}, err
		}, m.ReconcilerOptions()...)
		all.Add(r)
		prometheus.AddReconciler(m, r)
		remove := prometheus.AddReconciler(m, reconcile.New("pods", pods, nil))
		stop := running(t, all)
		<-time.After(time.Minute)
		delayed := "kubereflector_reconcile_queue_delayed"
		assert.Equal(t, "reconcile_queue_delayed reconciler=pods 2\nreconcile_queue_delayed reconciler=pods#2 0", values(t, registry, delayed))
		remove()
		assert.Equal(t, "reconcile_queue_delayed reconciler=pods 2\nreconcile_queue_retries_total reconciler=pods 1\nreconcile_wait_seconds reconciler=pods 2",
			values(t, registry, delayed, "kubereflector_reconcile_queue_retries_total", "kubereflector_reconcile_wait_seconds"))
		require.NoError(t, stop())
	})
}

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
		for e := range slow.Consume(ctx) {
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
