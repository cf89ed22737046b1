// Program pods prints the pods of a cluster by node, and then every change. With -demo it needs no
// cluster: see demo.go. The page docs/start/first-informer.md explains it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	demo := flag.Bool("demo", false, "run on an API server in memory, instead of a cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // KUBECONFIG, or ~/.kube/config
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case *demo:
		err = demonstrate(ctx, os.Stdout)
	case err == nil:
		err = run(ctx, os.Stdout, config)
	default:
		err = fmt.Errorf("%w: set KUBECONFIG, or take -demo, which needs no cluster", err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run prints pods until ctx ends.
func run(ctx context.Context, out io.Writer, config *rest.Config) error {
	print := log.New(out, "", 0).Println
	resource, err := client.For[*corev1.Pod](config)
	if err != nil {
		return err
	}
	report := informer.WithErrorHandler(func(_ context.Context, err error) { log.Print(err) })
	pods := informer.New(resource, informer.WithName("pods"), report)
	pods.Handle(informer.HandlerFuncs[*corev1.Pod]{
		OnAdd: func(pod *corev1.Pod, initial bool) {
			if !initial {
				print(pod.Name, "is new")
			}
		},
		OnUpdate: func(prior, pod *corev1.Pod) {
			print(pod.Name, "was", prior.Status.Phase, "and is", pod.Status.Phase)
		},
		OnDelete: func(pod *corev1.Pod, finalStateKnown bool) { print(pod.Name, "is gone") },
	})
	byNode, err := store.AddIndex(pods.Cache(), "node", func(pod *corev1.Pod) []string {
		return []string{pod.Spec.NodeName}
	})
	if err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() { result <- pods.Run(ctx) }()

	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := pods.WaitForSync(waiting); err != nil {
		log.Print(err) // the missing parts and the last failure; the informer keeps trying
	}
	if pods.WaitForSync(ctx) == nil { // however long it takes
		for node := range byNode.Values() {
			for key, pod := range byNode.Get(node) {
				print(node, key, pod.Status.Phase)
			}
		}
	}
	return <-result
}
