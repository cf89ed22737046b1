// Program freshness writes an object and then reads its cache. The cache is behind the API server, as
// every cache is at times. The program waits until the cache shows the write.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() { cluster.Main(cluster.InMemoryOnly(demo), often) }

// run switches a lamp on and reads a cache that has the lamps of the bedroom. catchUp lets the slow
// watch of the cache go on.
func run(ctx context.Context, out io.Writer, c cluster.Cluster, lamps *store.View[*corev1.ConfigMap], catchUp func()) error {
	client := c.CoreV1().ConfigMaps("default")
	lamp, err := client.Update(ctx, newLamp("lamp", "bedroom", "on"), metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "The lamp was switched on, and the cache says:", light(lamps))

	// The error of a wait says how far the cache has come.
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	var behind *await.Error
	if errors.As(await.Object(short, lamps, lamp), &behind) {
		fmt.Fprintf(out, "Waited in vain for version %s of %s: the cache is at %s\n", behind.Wanted, behind.Key, behind.Reached)
	}
	catchUp()
	if err := await.Object(ctx, lamps, lamp); err != nil {
		return err
	}
	fmt.Fprintln(out, "Waited for the lamp. The cache says:", light(lamps))

	// The selector of the cache leaves this lamp out. A bookmark shows that the cache has passed it.
	other, err := client.Create(ctx, newLamp("other", "kitchen", "on"), metav1.CreateOptions{})
	if err == nil {
		err = await.Object(ctx, lamps, other)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Waited for a lamp of the kitchen. Lamps in the cache:", lamps.Len())

	if err := client.Delete(ctx, lamp.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err = await.Deletion(ctx, lamps, lamp)
	fmt.Fprintln(out, "Waited for the deletion. Lamps in the cache:", lamps.Len())
	return err
}
