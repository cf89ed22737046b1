// Program writeatest is a controller that puts a stamp, an annotation, on every
// ConfigMap of the namespace default. What matters here is its test: it runs the
// controller against an API server in memory, and lets things go wrong.
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
	configMaps := eventqueue.New(store.ObjectKey[*corev1.ConfigMap], eventqueue.WithCompaction(eventqueue.KeepLatest))
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
			return err // if it is one: the event comes again
		}))
}

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if c.Memory == nil {
		return fmt.Errorf("this example changes ConfigMaps, and runs on the cluster in memory only: see its test")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stamper := newStamper(c)
	result := make(chan error, 1)
	go func() { result <- stamper.Run(ctx) }()

	client := c.CoreV1().ConfigMaps("default")
	err := cluster.Steps(ctx, func() error {
		_, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}}, metav1.CreateOptions{})
		return err
	}, func() error {
		letter, err := client.Get(ctx, "letter", metav1.GetOptions{})
		if err == nil {
			fmt.Fprintf(out, "letter has a stamp: %s\n", letter.Annotations[stamp])
		}
		return err
	})
	stop()
	if runErr := <-result; err == nil {
		err = runErr
	}
	return err
}
