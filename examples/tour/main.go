// Program tour shows what happens in an informer, in a browser: a scripted life of a few
// pods on an API server in memory, with a slow subscriber, one that fails, a broken watch,
// a relist and a re-creation. Step through it, or let it go on by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

func main() {
	address := flag.String("address", "localhost:8080", "where the page is served")
	pace := flag.Duration("pace", 8*time.Second, "how long a step lasts")
	paused := flag.Bool("paused", false, "begin paused")
	flag.Parse()
	if *pace <= 0 {
		log.Fatal("-pace must be more than 0; -paused begins paused")
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

// run serves the tour until ctx ends.
func run(ctx context.Context, listener net.Listener, pace time.Duration, paused bool) error {
	server, err := reflectortest.NewServer(reflectortest.WithBookmarkInterval(5 * time.Second))
	if err != nil {
		return err
	}
	defer server.Close()
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		return err
	}
	pods := informer.New(clientset.CoreV1().Pods("default"), informer.WithName("pods"))
	t := newTour(server, pace, paused)
	t.subscribe(ctx, pods)

	page := inspect.New(inspect.WithInterval(250 * time.Millisecond))
	inspect.Add(page, pods)
	routes := t.routes()
	routes.Handle("/informers/", http.StripPrefix("/informers", page))
	web := &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	web.RegisterOnShutdown(page.Close)

	return together(ctx,
		func(ctx context.Context) error { return ignoreLeft(pods.Run(ctx)) },
		t.play,
		func(context.Context) error {
			if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		func(ctx context.Context) error {
			<-ctx.Done()
			return web.Shutdown(context.WithoutCancel(ctx))
		})
}

// together calls all functions, ends all when one fails, and returns why.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failures := make([]error, len(all))
	var running sync.WaitGroup
	for n, one := range all {
		running.Go(func() {
			if failures[n] = one(ctx); failures[n] != nil {
				stop(failures[n])
			}
		})
	}
	running.Wait()
	return errors.Join(failures...)
}

// ignoreLeft returns nil for events that were left when the tour ended.
func ignoreLeft(err error) error {
	if _, left := errors.AsType[*eventqueue.DrainError](err); left {
		return nil
	}
	return err
}

// subscribe adds three subscribers, of which one takes its time and one fails.
func (t *tour) subscribe(ctx context.Context, pods *informer.Informer[*corev1.Pod]) {
	pods.Handle(informer.HandlerFuncs[*corev1.Pod]{}, informer.WithName("quick"))
	slow := func() {
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
		}
	}
	pods.Handle(informer.HandlerFuncs[*corev1.Pod]{
		OnAdd:    func(*corev1.Pod, bool) { slow() },
		OnUpdate: func(_, _ *corev1.Pod) { slow() },
		OnDelete: func(*corev1.Pod, bool) { slow() },
	}, informer.WithName("slow"))
	pods.Handle(informer.HandlerFunc[*corev1.Pod](failsOnFailed), informer.WithName("fails"), informer.WithQueue(eventqueue.WithBackoff(time.Second, 8*time.Second)))
}
