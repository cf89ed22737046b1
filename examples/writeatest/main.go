// Program writeatest is a controller that puts a stamp, an annotation, on every ConfigMap of a
// namespace. The example is its test, which runs the controller on an in-memory API server with faults.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const stamp = "example.com/stamp"

// newStamper returns the controller.
func newStamper(clientset kubernetes.Interface) *controller.Controller[*corev1.ConfigMap] {
	client := clientset.CoreV1().ConfigMaps("default")
	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap])
	return controller.New(reflector.New(client, configMaps).Run, configMaps,
		controller.Each(func(ctx context.Context, event eventqueue.Event[*corev1.ConfigMap]) error {
			if event.Type == eventqueue.Deletion || event.Object.Annotations[stamp] != "" {
				return nil
			}
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"yes"}}}`, stamp)
			_, err := client.Patch(ctx, event.Key.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if apierrors.IsNotFound(err) {
				return nil // it was deleted meanwhile
			}
			return err // after an error the event is delivered again
		}))
}

func main() { cluster.Main(cluster.InMemoryOnly(cluster.With(run, demo))) }

func run(ctx context.Context, _ io.Writer, c cluster.Cluster) error { return newStamper(c).Run(ctx) }
