package leader_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// work is what is led; usually it is a reconcile.Reconciler.
type work struct {
	name string
	stop func()
}

func (w work) Run(ctx context.Context) error {
	fmt.Println(w.name, "leads")
	w.stop() // usually it goes on until ctx ends
	<-ctx.Done()
	return nil
}

// The second one leads when the first has ended and given up the lease.
func ExampleNew() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())

	for _, name := range []string{"one", "two"} {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "sites"},
			Client:     clientset.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name}, // usually the host's name
		}
		ctx, stop := context.WithCancel(context.Background())
		// Shorter than the defaults: the first one waits for a lease duration.
		short := leader.WithTimes(time.Second, time.Second/2, time.Second/10)
		fmt.Println(leader.New(lock, work{name, stop}, short).Run(ctx))
	}
	// Output:
	// one leads
	// <nil>
	// two leads
	// <nil>
}
