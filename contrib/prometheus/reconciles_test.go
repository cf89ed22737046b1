package prometheus_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/shard"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestReconcilesAreToldApartByTheirResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a")
		m, registry := newMetrics()
		maps := mapsOf(t, server, informer.WithName("maps"))
		ends := []func() (reconcile.Result, error){
			func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("no") },
			func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Hour}, errors.New("no") },
			func() (reconcile.Result, error) { panic("ouch") },
			func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Second}, nil },
			func() (reconcile.Result, error) {
				<-time.After(time.Second)
				return reconcile.Result{RequeueAfter: time.Second}, nil
			},
			func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Second}, nil },
			func() (reconcile.Result, error) { return reconcile.Result{}, nil },
		}
		calls := 0
		all := manager.New(nil)
		all.Add(maps)
		all.Add(reconcile.New("painter\xff", maps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			if calls++; calls > len(ends) {
				return reconcile.Result{}, eventqueue.Permanent(errors.New("never"))
			}
			return ends[calls-1]()
		}, m.ReconcilerOptions()...))
		stop := running(t, all)
		<-time.After(time.Minute)
		require.NoError(t, server.Delete(configMap("a")))
		<-time.After(time.Minute)
		assert.Equal(t, strings.Join([]string{
			"reconcile_duration_seconds reconciler=painter\uFFFD result=error 2",
			"reconcile_duration_seconds reconciler=painter\uFFFD result=ok 1",
			"reconcile_duration_seconds reconciler=painter\uFFFD result=panic 1",
			"reconcile_duration_seconds reconciler=painter\uFFFD result=permanent 1",
			"reconcile_duration_seconds reconciler=painter\uFFFD result=requeue_after 3",
		}, "\n"), values(t, registry, "kubereflector_reconcile_duration_seconds"))
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
		require.NoError(t, stop())
	})
}

func TestRetriesOfAReconcilerDoNotCountAsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a")
		m, registry := newMetrics()
		maps := mapsOf(t, server, informer.WithName("maps"))
		calls := 0
		all := manager.New(nil)
		all.Add(maps)
		all.Add(reconcile.New("painter", maps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			if calls++; calls > 2 {
				return reconcile.Result{}, nil
			}
			<-time.After(time.Minute)
			return reconcile.Result{}, errors.New("no")
		}, m.ReconcilerOptions()...))
		stop := running(t, all)
		<-time.After(time.Hour)
		assert.Equal(t, "reconcile_wait_seconds reconciler=painter 1", values(t, registry, "kubereflector_reconcile_wait_seconds"))
		assert.Zero(t, sumOf(t, registry, "kubereflector_reconcile_wait_seconds"))
		require.NoError(t, stop())
		assert.Equal(t, 3, calls)
	})
}

func TestSeriesOfRemovedReconcilersAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a")
		m, registry := newMetrics()
		// run runs a program until its key is reconciled.
		run := func() (remove func()) {
			maps := mapsOf(t, server, informer.WithName("maps"))
			painter := reconcile.New("painter", maps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}, m.ReconcilerOptions()...)
			all := manager.New(nil)
			all.Add(maps)
			all.Add(painter)
			remove = prometheus.AddReconciler(m, painter)
			stop := running(t, all)
			synctest.Wait()
			require.NoError(t, stop())
			return remove
		}
		series := func() string {
			return values(t, registry, "kubereflector_reconcile_wait_seconds", "kubereflector_reconcile_duration_seconds")
		}
		first := run()
		once := series()
		assert.Contains(t, once, "reconcile_wait_seconds reconciler=painter 1")
		assert.Contains(t, once, "result=error 0")
		first()
		families, err := registry.Gather()
		require.NoError(t, err)
		assert.Empty(t, families)

		second, third := run(), run()
		first() // for nothing
		second()
		assert.Contains(t, series(), "reconcile_wait_seconds reconciler=painter 2", "they share the series")
		third()
		run()
		third() // for nothing
		assert.Equal(t, once, series())
	})
}

func TestManagerMeasuresItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a")
		metrics, registry := newMetrics()
		m := manager.New(server.Config(), manager.WithInformerOptions(metrics.Options), manager.WithReconcilerOptions(metrics.ReconcilerOptions()...))
		maps, err := manager.Informer[*corev1.ConfigMap](m, manager.Selection{})
		require.NoError(t, err)
		prometheus.Add(metrics, maps)
		reconciler := manager.Reconcile(m, "painter", maps, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		})
		prometheus.AddReconciler(metrics, reconciler)
		registry.MustRegister(prometheus.NewLeader("painter", m))
		stop := running(t, m)
		synctest.Wait()
		assert.Equal(t, strings.Join([]string{
			"list_objects informer=*v1.ConfigMap ConfigMap/v1 1",
			"cache_objects informer=*v1.ConfigMap ConfigMap/v1 1",
			"reconcile_queue_keys reconciler=painter 0",
			"leading lease=painter 1",
			"handler_duration_seconds informer=*v1.ConfigMap ConfigMap/v1 result=ok subscriber=painter 1",
			"reconcile_duration_seconds reconciler=painter result=ok 1",
		}, "\n"), strings.Join([]string{
			values(t, registry, "kubereflector_list_objects"),
			values(t, registry, "kubereflector_cache_objects"),
			values(t, registry, "kubereflector_reconcile_queue_keys"),
			values(t, registry, "kubereflector_leading"),
			values(t, registry, "kubereflector_handler_duration_seconds"),
			strings.Split(values(t, registry, "kubereflector_reconcile_duration_seconds"), "\n")[1],
		}, "\n"))
		require.NoError(t, stop())
	})
}

// leads is a member that works until its context ends.
type leads struct{ begun chan struct{} }

func (l leads) Run(ctx context.Context) error {
	close(l.begun)
	<-ctx.Done()
	return nil
}

func TestLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		lock := &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "sites"}, Client: clientset.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "one"},
		}
		member := leads{make(chan struct{})}
		elector := leader.New(lock, member)
		gauge := prometheus.NewLeader("sites", elector)
		problems, err := testutil.CollectAndLint(gauge)
		require.NoError(t, err)
		assert.Empty(t, problems)
		assert.Zero(t, testutil.ToFloat64(gauge))

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- elector.Run(ctx) }()
		<-member.begun
		assert.EqualValues(t, 1, testutil.ToFloat64(gauge))
		cancel()
		require.NoError(t, <-ended)
		assert.Zero(t, testutil.ToFloat64(gauge))
	})
}

func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		hold := func(ctx context.Context, _ shard.Shard) error { <-ctx.Done(); return nil }
		member, err := shard.New(clientset.CoordinationV1(), shard.Group{Namespace: "default", Name: "sites", Shards: 3}, "one", hold)
		require.NoError(t, err)
		metrics := prometheus.NewShards(member)
		problems, err := testutil.CollectAndLint(metrics)
		require.NoError(t, err)
		assert.Empty(t, problems)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- member.Run(ctx) }()
		require.NoError(t, member.WaitForSync(ctx))
		synctest.Wait()
		require.Len(t, member.Owned(), 3)
		assert.NoError(t, testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP kubereflector_shards Shards that there are, as far as the member knows.
# TYPE kubereflector_shards gauge
kubereflector_shards{group="sites"} 3
# HELP kubereflector_shards_held Shards whose work goes on in this process.
# TYPE kubereflector_shards_held gauge
kubereflector_shards_held{group="sites"} 3
# HELP kubereflector_shards_free Shards that no member holds.
# TYPE kubereflector_shards_free gauge
kubereflector_shards_free{group="sites"} 0
# HELP kubereflector_shard_members Members that there are, this one included.
# TYPE kubereflector_shard_members gauge
kubereflector_shard_members{group="sites"} 1
`), "kubereflector_shards", "kubereflector_shards_held", "kubereflector_shards_free", "kubereflector_shard_members"))
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestPackageDocumentationListsAllMetrics(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	hold := func(context.Context, shard.Shard) error { return nil }
	clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
	require.NoError(t, err)
	member, err := shard.New(clientset.CoordinationV1(), shard.Group{Namespace: "default", Name: "sites", Shards: 3}, "one", hold)
	require.NoError(t, err)
	described := make(chan *prom.Desc)
	go func() {
		defer close(described)
		for _, each := range []prom.Collector{prometheus.New(), prometheus.NewShards(member), prometheus.NewLeader("sites", manager.New(nil))} {
			each.Describe(described)
		}
	}()
	name := regexp.MustCompile(`fqName: "kubereflector_(\w+)"`)
	for desc := range described {
		found := name.FindStringSubmatch(desc.String())
		require.Len(t, found, 2)
		if !strings.HasPrefix(found[1], "reconcile_queue_") { // as of a subscriber
			assert.True(t, regexp.MustCompile(`(?m)^//\t.*\b`+found[1]+`\b`).Match(text), found[1])
		}
	}
}
