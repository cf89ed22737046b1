// Program freshness writes an object and then reads its cache, which is behind, as every
// cache of an API server is at times. It does not guess for how long: it waits until the
// cache shows what was written.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

// often makes the server say how far it is every second, and not every minute.
var often = reflectortest.WithBookmarkInterval(time.Second)

func main() {
	server, err := reflectortest.NewServer(often)
	if err == nil {
		err = run(context.Background(), os.Stdout, server)
		server.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, server *reflectortest.Server) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		return err
	}
	client := clientset.CoreV1().ConfigMaps("default")
	lamp, err := client.Create(ctx, newLamp("lamp", "bedroom"), metav1.CreateOptions{})
	if err != nil {
		return err
	}

	// The watch is slow: after two events, the lamp and the end of the first list,
	// nothing comes through until it is released.
	release := make(chan struct{})
	server.Inject(reflectortest.StallAfterEvents(2, release).On("watch", "configmaps"))
	bedroom := reflector.WithLabelSelector(labels.Set{"room": "bedroom"}.AsSelector())
	lamps := informer.New(client, informer.WithReflector(bedroom))
	result := make(chan error, 1)
	go func() { result <- lamps.Run(ctx) }()
	if err := lamps.WaitForSync(ctx); err != nil {
		return err
	}
	look := func(when string) {
		lamp, ok := lamps.Cache().Get(store.Key{Namespace: "default", Name: "lamp"})
		if !ok {
			fmt.Fprintf(out, "%s the cache has no lamp\n", when)
			return
		}
		fmt.Fprintf(out, "%s the cache says: %s\n", when, lamp.Data["light"])
	}

	lamp.Data["light"] = "on"
	if lamp, err = client.Update(ctx, lamp, metav1.UpdateOptions{}); err != nil {
		return err
	}
	look("The lamp was switched on, and")

	// Waiting has a limit, and says how far the cache has come.
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	var behind *await.Error
	if errors.As(await.Object(short, lamps.Cache(), lamp), &behind) {
		fmt.Fprintf(out, "Waited in vain for version %s of %s: the cache is at %s\n", behind.Wanted, behind.Key, behind.Reached)
	}
	close(release)
	if err := await.Object(ctx, lamps.Cache(), lamp); err != nil {
		return err
	}
	look("Waited for it:")

	// An object that the selector leaves out is waited for, too: a bookmark will do.
	other, err := client.Create(ctx, newLamp("other", "kitchen"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := await.Object(ctx, lamps.Cache(), other); err != nil {
		return err
	}
	fmt.Fprintf(out, "Waited for one in the kitchen: the cache has %d lamp\n", lamps.Cache().Len())

	if err := client.Delete(ctx, lamp.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := await.Deletion(ctx, lamps.Cache(), lamp); err != nil {
		return err
	}
	look("Waited for the deletion:")
	stop()
	return <-result
}

func newLamp(name, room string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"room": room}},
		Data:       map[string]string{"light": "off"},
	}
}
