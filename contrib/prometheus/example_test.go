package prometheus_test

import (
	"context"
	"fmt"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	prom "github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
)

// Metrics of an informer, beside the program's others.
func ExampleMetrics() {
	server, err := reflectortest.NewServer()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	if err := server.Create(configMap("settings")); err != nil {
		panic(err)
	}
	clientset := kubernetes.NewForConfigOrDie(server.Config())

	metrics := prometheus.New()
	registry := prom.NewRegistry()
	registry.MustRegister(metrics)
	maps := informer.New(clientset.CoreV1().ConfigMaps(""), metrics.Options("maps")...)
	prometheus.Add(metrics, maps)

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		<-maps.Synced()
		stop()
	}()
	if err := maps.Run(ctx); err != nil {
		panic(err)
	}
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "kubereflector_cache_objects" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetLabel()[0].GetValue(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output:
	// kubereflector_cache_objects maps 1
}
