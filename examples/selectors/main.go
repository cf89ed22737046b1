// Program selectors lets the API server select pods, by labels and by a field.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func main() { cluster.Main(cluster.With(run, demo)) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	webOrDB, err := labels.Parse("app in (web, db)")
	if err != nil {
		return err
	}
	notDebug := reflector.WithFieldSelector(fields.OneTermNotEqualSelector("metadata.name", "debug"))
	pods := informer.New(c.CoreV1().Pods("default"), informer.WithReflector(reflector.WithLabelSelector(webOrDB), notDebug))

	pods.Handle(informer.HandlerFunc[*corev1.Pod](func(_ context.Context, event eventqueue.Event[*corev1.Pod]) error {
		fmt.Fprintf(out, "  %v of %s with app %s\n", event.Type, event.Key.Name, event.Object.Labels["app"])
		return nil
	}))
	return pods.Run(ctx)
}
