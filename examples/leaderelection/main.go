// Program leaderelection runs the same controller twice, as two processes would, of
// which one at a time may work: the one that holds a Lease. It prints who does what, and
// how the other takes over at once.
package main

import (
	"context"
	"errors"
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

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if c.Memory == nil {
		return errors.New("this example writes ConfigMaps and a Lease, and runs on the cluster in memory only")
	}
	create := func(name string) error {
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	if err := create("first"); err != nil {
		return err
	}

	work := make(chan string) // what was done, and by whom
	expect := func(n int) {
		for range n {
			fmt.Fprintln(out, " ", <-work)
		}
	}
	fmt.Fprintln(out, "One starts:")
	stopOne := start(ctx, c, "one", work)
	expect(1)
	fmt.Fprintln(out, "Two starts, and something happens:")
	stopTwo := start(ctx, c, "two", work)
	if err := create("second"); err != nil {
		return err
	}
	expect(1)
	fmt.Fprintln(out, "One stops:")
	if err := stopOne(); err != nil {
		return err
	}
	expect(2)
	fmt.Fprintln(out, "Something happens:")
	if err := create("third"); err != nil {
		return err
	}
	expect(1)
	return stopTwo()
}

// start starts a process, so to speak, and returns what stops it.
func start(ctx context.Context, c cluster.Cluster, name string, work chan<- string) (stop func() error) {
	configMaps := informer.New(c.CoreV1().ConfigMaps("default"))
	reconciler := reconcile.New(name, configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
		work <- fmt.Sprintf("%s works on %s", name, key)
		return reconcile.Result{}, nil
	})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "example"},
		Client:     c.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	// Shorter than the defaults: the first one waits for a lease duration.
	elector := leader.New(lock, reconciler, leader.WithTimes(3*time.Second, time.Second, 200*time.Millisecond))

	// The informer runs in both, so that the cache of the next leader is warm.
	informing, stopInformer := context.WithCancel(ctx)
	electing, stopElecting := context.WithCancel(ctx)
	informed, elected := make(chan error, 1), make(chan error, 1)
	go func() { informed <- configMaps.Run(informing) }()
	go func() { elected <- elector.Run(electing) }()
	return func() error {
		stopElecting()
		err := <-elected // the reconciler has finished, and the lease is given up
		stopInformer()
		return errors.Join(err, <-informed)
	}
}
