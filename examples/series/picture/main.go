// Program picture puts the types of the series together by hand, as the diagram of part 5 does. It
// has the colours of that diagram: users touch what is orange, pink is the implementation, and light
// blue is Kubernetes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

type configMap = *corev1.ConfigMap

func run(ctx context.Context, out io.Writer) error {
	// Light blue: an API server, here in memory, and its client.
	server, err := reflectortest.NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		return err
	}
	client := clientset.CoreV1().ConfigMaps("default")

	// Orange: the known objects, which the program reads, and a handler.
	known := &series.Map[configMap]{}
	handler := &printer{out: out, known: known, printed: make(chan struct{}, 1)}

	// Pink: the ListerWatcher, the queue, and the controller with its reflector. The reflector fills
	// the queue. What leaves the queue goes to the known objects first and then to the handler.
	source := series.FromClient(client)
	queue := series.NewEventQueueCollection(known)
	distributor := &series.Distributor[configMap]{}
	distributor.AddHandler(handler, true)
	controller := series.NewController(series.Config[configMap]{
		Source:  source,
		Queue:   queue,
		Process: series.Track(known, distributor.Distribute),
	})
	running, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { controller.Run(running) })

	// kubectl would publish these messages. Each goes all the way to the handler before the next.
	err = errors.Join(
		handler.after(ctx, server.Create(song("do"))),
		handler.after(ctx, server.Update(song("re"))),
		handler.after(ctx, server.Delete(song("re"))),
	)
	stop()
	wait.Wait()
	distributor.Close()
	return err
}

// printer is a handler that prints what it hears, and what is known then.
type printer struct {
	out     io.Writer
	known   series.Reader[configMap]
	printed chan struct{}
}

func (p *printer) OnAdd(c configMap) { p.print("added: " + c.Data["first"]) }

func (p *printer) OnUpdate(prior, c configMap) {
	p.print("updated: " + prior.Data["first"] + ", now " + c.Data["first"])
}

func (p *printer) OnDelete(c configMap) { p.print("deleted: " + c.Data["first"]) }

func (p *printer) print(text string) {
	fmt.Fprintln(p.out, text, p.known.ListKeys())
	p.printed <- struct{}{}
}

// after waits for the handler's line about a message. err is the result of publishing it.
func (p *printer) after(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	select {
	case <-p.printed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func song(first string) configMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "song"},
		Data:       map[string]string{"first": first},
	}
}
