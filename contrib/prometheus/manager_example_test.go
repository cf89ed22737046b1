package prometheus_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
)

// A manager serves the metrics of its informers and reconcilers, and those of the program.
func ExampleMetrics_manager() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	config, address := server.Config(), "127.0.0.1:0" // a program has :8080

	metrics := prometheus.New()
	registry := prom.NewRegistry()
	registry.MustRegister(metrics)
	m := manager.New(config,
		manager.WithInformerOptions(metrics.Options),
		manager.WithReconcilerOptions(metrics.ReconcilerOptions()...),
		manager.WithServer(address),
		manager.WithHandler("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	maps, err := manager.Informer[*corev1.ConfigMap](m, manager.Selection{})
	if err != nil {
		panic(err)
	}
	painter := manager.Reconcile(m, "painter", maps, paint)
	prometheus.Add(metrics, maps)
	prometheus.AddReconciler(metrics, painter)

	ctx, stop := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- m.Run(ctx) }()
	if err := m.WaitForSync(ctx); err != nil {
		panic(err)
	}
	response, err := http.Get("http://" + m.Address() + "/metrics")
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "kubereflector_synced") || strings.HasPrefix(lines.Text(), "kubereflector_reconcile_queue_delayed{") {
			fmt.Println(lines.Text())
		}
	}
	stop()
	fmt.Println(<-result)
	// Output:
	// kubereflector_reconcile_queue_delayed{reconciler="painter"} 0
	// kubereflector_synced{informer="*v1.ConfigMap ConfigMap/v1"} 1
	// <nil>
}

func paint(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
	return reconcile.Result{}, nil
}
