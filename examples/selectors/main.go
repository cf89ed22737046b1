// Program selectors lets the API server select pods, by labels and by a field. The program adds and
// removes label selectors while its informer runs.
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

// apps is the set of label selectors. It may change at any time.
var apps informer.Selectors

func ofApp(name string) labels.Selector { return labels.SelectorFromSet(labels.Set{"app": name}) }

func main() { cluster.Main(cluster.With(run, demo)) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	apps.Add(ofApp("web"))
	defer apps.Remove(ofApp("web"))
	// Each label selector has a watch. All watches have the field selector.
	notDebug := reflector.WithFieldSelector(fields.OneTermNotEqualSelector("metadata.name", "debug"))
	pods := informer.New(c.CoreV1().Pods("default"), informer.WithSelectors(&apps), informer.WithReflector(notDebug))

	pods.Handle(informer.HandlerFunc[*corev1.Pod](func(_ context.Context, event eventqueue.Event[*corev1.Pod]) error {
		exists := ""
		if event.OutOfScope {
			exists = ", which still exists"
		}
		fmt.Fprintf(out, "  %v of %s with app %s%s\n", event.Type, event.Key.Name, event.Object.Labels["app"], exists)
		return nil
	}))
	return pods.Run(ctx)
}
