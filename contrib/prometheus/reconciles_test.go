package prometheus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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

func TestManagerMeasuresItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, "a")
		metrics, registry := newMetrics()
		m := manager.New(server.Config(), manager.WithInformerOptions(metrics.Options), manager.WithReconcilerOptions(metrics.ReconcilerOptions()...))
		maps, err := manager.Informer[*corev1.ConfigMap](m, manager.Source{})
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
