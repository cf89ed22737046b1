// Program indexes finds the pods of a cache by node, by priority and by address. Each index is a typed
// variable. A snapshot keeps one state of the cache, and the same index reads it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

func main() { cluster.Main(demo) }

// An index function returns the values of an object. An object without a value is not in the index.
func nodeOf(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }

func priorityOf(pod *corev1.Pod) []int32 {
	if pod.Spec.Priority == nil {
		return nil
	}
	return []int32{*pod.Spec.Priority}
}

func addressOf(pod *corev1.Pod) []netip.Addr {
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		return nil
	}
	return []netip.Addr{address}
}

func run(ctx context.Context, out io.Writer, pods *informer.Informer[*corev1.Pod], change func() error) error {
	byNode, err1 := store.AddIndex(pods.Cache(), "node", nodeOf)
	byPriority, err2 := store.AddIndex(pods.Cache(), "priority", priorityOf)
	byAddress, err3 := store.AddIndexFunc(pods.Cache(), "address", addressOf, netip.Addr.Compare)
	if err := errors.Join(err1, err2, err3, pods.WaitForSync(ctx)); err != nil {
		return err
	}
	for node := range byNode.Values() {
		fmt.Fprintln(out, "on", node+":", names(byNode.Get(node)))
	}
	fmt.Fprintln(out, "the most important first:", names(byPriority.Backward()))
	fmt.Fprintln(out, "priority of 100 and more:", names(byPriority.From(100)))
	fmt.Fprintln(out, "10.0.0.2 is", names(byAddress.Get(netip.MustParseAddr("10.0.0.2"))))

	before := pods.Cache().Snapshot()
	err := change()
	fmt.Fprintf(out, "then: %d pods, on node-1: %s\n", before.Len(), names(byNode.On(before).Get("node-1")))
	fmt.Fprintf(out, "now: %d pods, on node-1: %s\n", pods.Cache().Len(), names(byNode.Get("node-1")))
	return err
}
