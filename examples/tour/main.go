// Program tour shows the life of a few pods in an informer, in a browser.
//
// The API server runs in memory. A script creates, changes and deletes pods, and breaks the watch.
// One handler is quick, one is slow, and one fails. The visitor steps through the script.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	corev1 "k8s.io/api/core/v1"
)

func main() {
	address := flag.String("address", "localhost:8080", "the address of the page")
	pace := flag.Duration("pace", 8*time.Second, "the time between two steps")
	paused := flag.Bool("paused", false, "wait for the visitor before each step")
	flag.Parse()
	if *pace <= 0 {
		log.Fatal("-pace must be more than 0; use -paused to wait before each step")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err == nil {
		fmt.Printf("The tour is at http://%v/ (Ctrl-C ends it)\n", listener.Addr())
		err = run(ctx, listener, *pace, *paused)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// subscribe adds the three handlers. Each prints a line for each event.
func subscribe(ctx context.Context, pods *informer.Informer[*corev1.Pod], out io.Writer) {
	handle := func(name string, handle func(*corev1.Pod) error, opts ...informer.SubscriptionOption) {
		opts = append(opts, informer.WithName(name))
		pods.Handle(informer.HandlerFunc[*corev1.Pod](func(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
			if err := handle(e.Object); err != nil {
				fmt.Fprintf(out, "%s: %v\n", name, err)
				return err
			}
			fmt.Fprintf(out, "%s: %s of %s, %s, version %s\n", name, e.Type, e.Key.Name, e.Object.Status.Phase, e.Object.ResourceVersion)
			return nil
		}), opts...)
	}
	handle("quick", func(*corev1.Pod) error { return nil })
	handle("slow", func(*corev1.Pod) error {
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
		}
		return nil
	})
	handle("fails", func(pod *corev1.Pod) error {
		if pod.Status.Phase == corev1.PodFailed {
			return errors.New("pod " + pod.Name + " has failed")
		}
		return nil
	}, informer.WithQueue(eventqueue.WithBackoff(time.Second, 8*time.Second)))
}
