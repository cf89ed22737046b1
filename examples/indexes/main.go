// Program indexes finds the pods of a cache by their node, by their priority and by
// their address. An index is a variable, typed by what it finds objects by. It also
// keeps a snapshot, one moment of the cache, and asks the same index about then and
// now.
package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/netip"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := c.CoreV1().Pods("default")
	if c.Memory != nil {
		if err := fill(ctx, client); err != nil {
			return err
		}
	}

	pods := informer.New(client)
	byNode, err := store.AddIndex(pods.Cache(), "node", func(pod *corev1.Pod) []string {
		return []string{pod.Spec.NodeName}
	})
	if err != nil {
		return err
	}
	byPriority, err := store.AddIndex(pods.Cache(), "priority", func(pod *corev1.Pod) []int32 {
		if pod.Spec.Priority == nil {
			return nil // not in the index
		}
		return []int32{*pod.Spec.Priority}
	})
	if err != nil {
		return err
	}
	byAddress, err := store.AddIndexFunc(pods.Cache(), "address", func(pod *corev1.Pod) []netip.Addr {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		if err != nil {
			return nil // no address yet
		}
		return []netip.Addr{address}
	}, netip.Addr.Compare)
	if err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() { result <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		return err
	}

	for node := range byNode.Values() {
		fmt.Fprintln(out, "on", node+":", names(byNode.Get(node)))
	}
	fmt.Fprintln(out, "the most important first:", names(byPriority.Backward()))
	fmt.Fprintln(out, "priority of 100 and more:", names(byPriority.From(100)))
	fmt.Fprintln(out, "10.0.0.2 is", names(byAddress.Get(netip.MustParseAddr("10.0.0.2"))))

	if c.Memory != nil {
		before := pods.Cache().Snapshot()
		if err := remove(ctx, client, pods.Cache(), "db"); err != nil {
			return err
		}
		fmt.Fprintf(out, "then: %d pods, on node-1: %s\n", before.Len(), names(byNode.On(before).Get("node-1")))
		fmt.Fprintf(out, "now: %d pods, on node-1: %s\n", pods.Cache().Len(), names(byNode.Get("node-1")))
	}
	stop()
	return <-result
}

func names(pods iter.Seq2[store.Key, *corev1.Pod]) (names []string) {
	for key := range pods {
		names = append(names, key.Name)
	}
	return names
}

// fill gives the API server in memory something to find.
func fill(ctx context.Context, client corev1client.PodInterface) error {
	for _, p := range []struct {
		name, address string
		priority      int32
	}{{"web", "10.0.0.1", 100}, {"db", "10.0.0.2", 1000}, {"report", "10.0.0.3", 10}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Spec: corev1.PodSpec{NodeName: "node-1", Priority: &p.priority}}
		created, err := client.Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		created.Status.PodIP = p.address
		if _, err := client.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a pod, and waits until the cache shows it.
func remove(ctx context.Context, client corev1client.PodInterface, pods *store.View[*corev1.Pod], name string) error {
	pod, _ := pods.Get(store.Key{Namespace: "default", Name: name})
	if err := client.Delete(ctx, name, *metav1.NewDeleteOptions(0)); err != nil {
		return err
	}
	return await.Deletion(ctx, pods, pod)
}
