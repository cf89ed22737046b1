// Program leaderelection runs the same controller twice, as two processes would. Only the one that
// holds a Lease works. When it stops, the other one takes over at once. A program with a manager needs
// only manager.WithElection; this is what it does.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() { cluster.Main(cluster.InMemoryOnly(demo)) }

// process runs until ctx ends.
func process(ctx context.Context, out io.Writer, c cluster.Cluster, name string) error {
	configMaps := informer.New(c.CoreV1().ConfigMaps("default"))
	reconciler := reconcile.New(name, configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
		fmt.Fprintf(out, "  %s works on %s\n", name, key)
		return reconcile.Result{}, nil
	})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "example"},
		Client:     c.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	// The default times are longer. The first leader waits for a lease duration.
	elector := leader.New(lock, reconciler, leader.WithTimes(3*time.Second, time.Second, 200*time.Millisecond))
	// The informer runs in both processes, so that the cache of the next leader is warm. It outlives
	// the elector, which gives up the Lease after the last call of the reconciler. The elector ends with ctx,
	// or if the informer does: a process without a cache must not lead.
	return cluster.While(context.WithoutCancel(ctx), configMaps.Run, func(alive context.Context) error {
		leading, stop := context.WithCancel(ctx)
		defer context.AfterFunc(alive, stop)()
		defer stop()
		return elector.Run(leading)
	})
}
