// Program pods shares one watch on the pods of a namespace between two subscribers. The second one
// joins late. It gets the pods of the cache first, and then the same events as the other.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	corev1 "k8s.io/api/core/v1"
)

func main() { cluster.Main(cluster.With(run, demo)) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	pods := informer.New(c.CoreV1().Pods("default"))
	pods.Handle(subscriber(out, "early"))
	late := time.AfterFunc(joinsAfter, func() {
		fmt.Fprintln(out, "(the late subscriber joins)")
		pods.Handle(subscriber(out, "late "))
	})
	defer late.Stop()
	return pods.Run(ctx)
}

// subscriber returns a handler that prints its events.
func subscriber(out io.Writer, name string) informer.HandlerFuncs[*corev1.Pod] {
	return informer.HandlerFuncs[*corev1.Pod]{
		OnAdd: func(pod *corev1.Pod, initial bool) {
			word := "appeared"
			if initial {
				word = "was there"
			}
			fmt.Fprintf(out, "%s: %s %s (%s)\n", name, pod.Name, word, pod.Status.Phase)
		},
		OnUpdate: func(prior, pod *corev1.Pod) {
			if pod.Status.Phase != prior.Status.Phase {
				fmt.Fprintf(out, "%s: %s changed from %s to %s\n", name, pod.Name, prior.Status.Phase, pod.Status.Phase)
			}
		},
		OnDelete: func(pod *corev1.Pod, _ bool) {
			fmt.Fprintf(out, "%s: %s is gone (%s)\n", name, pod.Name, pod.Status.Phase)
		},
	}
}
