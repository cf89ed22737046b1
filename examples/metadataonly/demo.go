package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo creates a ConfigMap and a Secret with 100 kB of data each.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if c.Memory != nil {
		shop := metav1.ObjectMeta{Namespace: "default", Name: "shop", Labels: map[string]string{"team": "sales"}}
		text := strings.Repeat("x", 100_000)
		configMap := &corev1.ConfigMap{ObjectMeta: shop, Data: map[string]string{"page": text}}
		whole, _ := json.Marshal(configMap)
		fmt.Fprintf(out, "each object: more than %d000 bytes on the server\n", len(whole)/1000)
		secret := &corev1.Secret{ObjectMeta: shop, Data: map[string][]byte{"key": []byte(text)}}
		if err := c.Create(configMap, secret)(); err != nil {
			return err
		}
	}
	return run(ctx, out, c)
}
