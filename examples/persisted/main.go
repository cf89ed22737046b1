// Program persisted keeps the cache of an informer in a file. The next process reads the objects
// before its first request, and its watch resumes where the last process ended.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/contrib/persist"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() { cluster.Main(cluster.InMemoryOnly(demo)) }

// process opens the file and runs an informer over it until ctx ends.
func process(ctx context.Context, out io.Writer, c cluster.Cluster, file string) (err error) {
	system, err := c.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	held, err := persist.Open(file, store.ObjectKey[*corev1.ConfigMap], persist.Options[*corev1.ConfigMap]{
		Resource: "configmaps in default",
		Cluster:  string(system.UID), // Open refuses the file of another cluster
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	fmt.Fprintf(out, "  ConfigMaps in the file: %d\n", held.Len())

	configMaps := informer.NewStored(c.CoreV1().ConfigMaps("default"), held)
	configMaps.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, event eventqueue.Event[*corev1.ConfigMap]) error {
		fmt.Fprintf(out, "  %v of %s with %v\n", event.Type, event.Key, event.Object.Data)
		return nil
	}))
	return configMaps.Run(ctx)
}
