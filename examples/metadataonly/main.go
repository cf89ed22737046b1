// Program metadataonly caches the metadata of ConfigMaps and Secrets. The API server sends only the
// metadata, so the data of the objects stays there.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

func main() { cluster.Main(demo) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	// The types differ: metadata of Secrets cannot be mistaken for metadata of ConfigMaps.
	configMaps := informer.NewMetadata[corev1.ConfigMap](client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default"))
	secrets := informer.NewMetadata[corev1.Secret](client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("default"))
	both := manager.New(nil)
	both.Add(configMaps)
	both.Add(secrets)
	return cluster.While(ctx, both.Run, func(ctx context.Context) error {
		if err := both.WaitForSync(ctx); err != nil {
			return err
		}
		for key, configMap := range configMaps.Cache().All() {
			show(out, "ConfigMap", key, configMap)
		}
		for key, secret := range secrets.Cache().All() {
			show(out, "Secret", key, secret)
		}
		return nil
	})
}

func show(out io.Writer, kind string, key fmt.Stringer, object metav1.Object) {
	cached, _ := json.Marshal(object)
	fmt.Fprintf(out, "%s %s of team %s: %d bytes in the cache\n", kind, key, object.GetLabels()["team"], len(cached))
}
