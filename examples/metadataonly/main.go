// Program metadataonly follows the metadata of ConfigMaps and of Secrets, which is all
// that the server sends: their data never leaves it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

func main() { cluster.Main(run) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if c.Memory != nil {
		if err := fill(ctx, c); err != nil {
			return err
		}
	}
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return err
	}

	// The two have different types: metadata of Secrets is not that of ConfigMaps.
	configMaps := informer.NewMetadata[corev1.ConfigMap](client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default"))
	secrets := informer.NewMetadata[corev1.Secret](client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("default"))
	both := manager.New(nil)
	both.Add(configMaps)
	both.Add(secrets)
	result := make(chan error, 1)
	go func() { result <- both.Run(ctx) }()
	if err := both.WaitForSync(ctx); err != nil {
		return err
	}

	for key, configMap := range configMaps.Cache().All() {
		tell(out, "ConfigMap", key, configMap)
	}
	for key, secret := range secrets.Cache().All() {
		tell(out, "Secret", key, secret)
	}
	stop()
	return <-result
}

func tell(out io.Writer, kind string, key fmt.Stringer, object metav1.Object) {
	held, _ := json.Marshal(object)
	fmt.Fprintf(out, "%s %s of team %s: less than 1 kB is held: %t\n", kind, key, object.GetLabels()["team"], len(held) < 1000)
}

// fill gives the API server in memory objects of 100 kB each.
func fill(ctx context.Context, c cluster.Cluster) error {
	named := metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "sales"}}
	much := strings.Repeat("x", 100_000)
	_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"page": much}}, metav1.CreateOptions{})
	if err == nil {
		_, err = c.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: named, StringData: map[string]string{"key": much}}, metav1.CreateOptions{})
	}
	return err
}
