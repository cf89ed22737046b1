// Program operator is a complete operator. A Site asks for a web page: the operator applies a
// ConfigMap, a Service and a Deployment, and registers the host of the Site with an external DNS
// API. Its main function is that of docs/start/production, from which an operator of your own can
// start; conditions, a finalizer and Secrets by reference are here alone.
//
// With -demo it shows the life of three Sites on an API server in memory: see demo.go. With -dns it
// works on a cluster: see manifests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/recorder"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	demo := flag.Bool("demo", false, "show the life of three Sites on an API server in memory, instead of a cluster")
	dnsURL := flag.String("dns", "", "URL of the DNS API")
	address := flag.String("address", ":8080", "address of /metrics, /healthz and /readyz")
	namespace := flag.String("namespace", name, "namespace of the Lease")
	flag.Parse()
	ctx, stop := manager.SignalContext(context.Background())
	logger := zap.Must(zap.NewProduction())                 // JSON to standard error
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // KUBECONFIG, ~/.kube/config or the pod
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case *demo:
		err = demonstrate(ctx, os.Stdout)
	case *dnsURL == "":
		err = errors.New("set -dns, or take -demo, which needs no cluster")
	case err == nil:
		manager.RouteKlog(logger) // before any code of client-go logs
		api := &dns{url: *dnsURL, client: &http.Client{Timeout: 10 * time.Second}}
		err = operate(ctx, config, api, *namespace, *address, logger)
	}
	stop()
	if err != nil {
		logger.Fatal("the operator ends", zap.Error(err)) // with exit code 1
	}
}

// operate runs the operator until ctx ends.
func operate(ctx context.Context, config *rest.Config, api *dns, namespace, address string, logger *zap.Logger) error {
	config.QPS = -1 // client-go sends at most 5 requests a second by default, which delays Events
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // the pod, for people who read the Lease
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	metrics := http.NewServeMux()
	m := manager.New(config, manager.WithLogger(logger), manager.WithElection(lock),
		manager.WithServer(address), manager.WithHandler("/metrics", metrics))
	written := recorder.New(clientset.EventsV1(), name, recorder.WithLogger(logger))
	m.Add(written)
	o := &operator{dns: api, events: written}
	if o.sites, err = manager.For[*Site](m, manager.Selection{Kind: siteKind}); err != nil {
		return err
	}
	own := manager.Selection{LabelSelector: managedBy + "=" + name}
	if o.configMaps, err = manager.For[*corev1.ConfigMap](m, own); err != nil {
		return err
	}
	if o.services, err = manager.For[*corev1.Service](m, own); err != nil {
		return err
	}
	if o.deployments, err = manager.For[*appsv1.Deployment](m, own); err != nil {
		return err
	}
	secrets, metadata, err := manager.ByReference[*corev1.Secret](m, manager.Selection{})
	if err != nil {
		return err
	}
	o.secret = secrets.Get
	secretOf := func(s *Site) []store.Key { return []store.Key{{Namespace: s.Namespace, Name: s.Spec.Secret}} }
	bySecret, err := store.AddIndexFunc(o.sites.Cache(), "secret", secretOf, store.Key.Compare)
	if err != nil {
		return err
	}
	users := func(secret *metav1.PartialObjectMetadata) (keys []store.Key) {
		for key := range bySecret.Get(store.Key{Namespace: secret.Namespace, Name: secret.Name}) {
			keys = append(keys, key)
		}
		return keys
	}
	r := manager.Reconcile(m, name, o.sites.Informer, o.reconcile,
		reconcile.WithWorkers(8), reconcile.WithTimeout(time.Minute), reconcile.IgnoreOwnWrites(), reconcile.Watch(metadata, users),
		reconcile.Watch(o.configMaps.Informer, sameKey), reconcile.Watch(o.services.Informer, sameKey),
		reconcile.Watch(o.deployments.Informer, sameKey))

	// docs/start/production has the metrics of contrib/prometheus, which is a module of its own.
	metrics.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		stats, leading := r.Stats(), 0
		if m.Leading() {
			leading = 1
		}
		fmt.Fprintf(w, "site_operator_leading %d\nsite_operator_sites %d\n", leading, o.sites.Cache().Len())
		fmt.Fprintf(w, "site_operator_queue_keys %d\nsite_operator_queue_oldest_seconds %g\nsite_operator_retries_total %d\n",
			stats.Keys, stats.Oldest.Seconds(), stats.Retries)
	})
	return m.Run(ctx)
}
