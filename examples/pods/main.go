// Program pods shares one watch on the pods of the namespace default between two
// subscribers, one of which comes late: it gets what is there first, and then the
// same news as the other.
package main

import (
	"context"
	"io"
	"log"
	"sync"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client := c.CoreV1().Pods("default")
	print := log.New(out, "", 0).Printf // the subscribers print at the same time

	pods := informer.New(client)
	pods.Handle(subscriber("early", print))

	var running sync.WaitGroup
	var informing, changing error
	running.Go(func() {
		defer stop()
		informing = pods.Run(ctx)
	})
	join := func() error {
		print("(the late subscriber joins)")
		pods.Handle(subscriber("late ", print))
		return nil
	}
	running.Go(func() {
		if c.Memory == nil {
			changing = cluster.Steps(ctx, join)
			return
		}
		defer stop()
		changing = change(ctx, client, join)
	})
	running.Wait()
	if informing != nil {
		return informing
	}
	return changing
}

// subscriber returns a handler that prints what it is told.
func subscriber(name string, print func(string, ...any)) informer.HandlerFuncs[*corev1.Pod] {
	return informer.HandlerFuncs[*corev1.Pod]{
		OnAdd: func(pod *corev1.Pod, initial bool) {
			word := "appeared"
			if initial {
				word = "was there"
			}
			print("%s: %s %s (%s)", name, pod.Name, word, pod.Status.Phase)
		},
		OnUpdate: func(prior, pod *corev1.Pod) {
			if pod.Status.Phase != prior.Status.Phase {
				print("%s: %s changed from %s to %s", name, pod.Name, prior.Status.Phase, pod.Status.Phase)
			}
		},
		OnDelete: func(pod *corev1.Pod, _ bool) {
			print("%s: %s is gone (%s)", name, pod.Name, pod.Status.Phase)
		},
	}
}

// change gives the API server in memory something to tell.
func change(ctx context.Context, client corev1client.PodInterface, join func() error) error {
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase}}
	}
	create := func(name string) func() error {
		return func() error {
			_, err := client.Create(ctx, pod(name, corev1.PodPending), metav1.CreateOptions{})
			return err
		}
	}
	update := func(name string, phase corev1.PodPhase) func() error {
		return func() error {
			_, err := client.UpdateStatus(ctx, pod(name, phase), metav1.UpdateOptions{})
			return err
		}
	}
	remove := func(name string) func() error {
		return func() error { return client.Delete(ctx, name, metav1.DeleteOptions{}) }
	}
	return cluster.Steps(ctx,
		create("web"), create("db"), update("web", corev1.PodRunning),
		join,
		update("db", corev1.PodRunning), remove("web"), create("web"))
}
