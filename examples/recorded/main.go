// Program recorded records what client-go's informers receive, and then runs the same program
// without a server, on the recording.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/record"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() { cluster.Main(cluster.InMemoryOnly(demo)) }

// program is written for client-go, and knows nothing of a recording.
func program(ctx context.Context, out io.Writer, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err = factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { fmt.Fprintln(out, "  the light is", object.(*corev1.ConfigMap).Data["light"]) },
		UpdateFunc: func(_, object any) { fmt.Fprintln(out, "  it turns", object.(*corev1.ConfigMap).Data["light"]) },
	})
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return err
}

// recorded runs the program and records it.
func recorded(ctx context.Context, out io.Writer, config *rest.Config, file io.Writer) error {
	recorder := record.NewRecorder(file)
	config = rest.CopyConfig(config)
	config.Wrap(recorder.Wrap)
	return errors.Join(program(ctx, out, config), recorder.Close())
}

// replayed runs the program on a recording until it is over.
func replayed(ctx context.Context, out io.Writer, file io.Reader) error {
	replay, err := record.NewReplay(file)
	if err != nil {
		return err
	}
	return cluster.While(ctx,
		func(ctx context.Context) error { return program(ctx, out, replay.Config()) },
		func(ctx context.Context) error {
			return cluster.Steps(ctx, func() error { <-replay.Done(); return replay.Err() })
		})
}
