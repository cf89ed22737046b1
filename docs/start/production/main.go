// Program production is the operator of docs/start/app as it runs in a cluster: two processes, of
// which one leads, with health checks, metrics, Events and an orderly end. app.go has the resource
// and the reconcile function. The page docs/start/production.md says why each part is here. On your
// machine it works with the cluster of kubectl: go run . -namespace default
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/recorder"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const name = "apps" // of the Lease, of the writer of Events and fields, and in metrics

func main() {
	address := flag.String("address", ":8080", "address of /healthz, /readyz and /metrics")
	namespace := flag.String("namespace", "apps", "namespace of the Lease")
	flag.Parse()
	ctx, stop := manager.SignalContext(context.Background())
	logger := zap.Must(zap.NewProduction())                 // JSON to standard error
	manager.RouteKlog(logger)                               // before any code of client-go logs
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // KUBECONFIG, ~/.kube/config or the pod
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		err = run(ctx, config, *namespace, *address, logger)
	}
	stop()
	if err != nil {
		logger.Fatal("the operator ends", zap.Error(err)) // with exit code 1
	}
}

// run runs the operator until ctx ends.
func run(ctx context.Context, config *rest.Config, namespace, address string, logger *zap.Logger) error {
	config.QPS = -1 // client-go sends at most 5 requests a second by default, which delays Events
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // the pod; kubectl -n apps get lease shows it
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	metrics, registry := prometheus.New(), prom.NewRegistry()
	m := manager.New(config, manager.WithLogger(logger), manager.WithElection(lock), manager.WithServer(address),
		manager.WithHandler("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{})),
		manager.WithInformerOptions(metrics.Options), manager.WithReconcilerOptions(metrics.ReconcilerOptions()...))
	o := &operator{events: recorder.New(clientset.EventsV1(), name, recorder.WithLogger(logger))}
	m.Add(o.events)
	if o.apps, err = manager.For[*App](m, manager.Selection{Kind: appKind}); err != nil {
		return err
	}
	own := manager.Selection{LabelSelector: managedBy + "=" + name}
	if o.deployments, err = manager.For[*appsv1.Deployment](m, own); err != nil {
		return err
	}
	reconciler := manager.Reconcile(m, name, o.apps.Informer, o.reconcile,
		reconcile.Owns(o.deployments.Informer, appKind.GroupKind()),
		reconcile.WithWorkers(4), reconcile.WithTimeout(time.Minute))
	prometheus.Add(metrics, o.apps.Informer)
	prometheus.Add(metrics, o.deployments.Informer)
	prometheus.AddReconciler(metrics, reconciler)
	registry.MustRegister(metrics, prometheus.NewLeader(name, m),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m.Run(ctx)
}
