package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// demo fills the caches with the same pods, prints three of the places, and compares the memory.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if c.Memory != nil {
		for i := range 1000 {
			if err := c.Memory.Create(newPod(i)); err != nil {
				return err
			}
		}
	}
	var pods *store.View[*corev1.Pod]
	var metadata *store.View[informer.Metadata[corev1.Pod]]
	var places *store.View[*place]
	var ofPods, ofMetadata, ofPlaces int64
	for range 2 { // the in-memory server encodes its objects in the first round
		var err1, err2, err3 error
		pods, metadata, places = nil, nil, nil
		pods, ofPods, err1 = measured(ctx, c.Config, newPods)
		metadata, ofMetadata, err2 = measured(ctx, c.Config, newMetadata)
		places, ofPlaces, err3 = measured(ctx, c.Config, newPlaces)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
	}
	shown := 0
	for key, p := range places.All() {
		if shown++; shown > 3 {
			break
		}
		m, _ := metadata.Get(key)
		fmt.Fprintf(out, "%s of team %s is on %s\n", key, m.Labels["team"], p.node)
	}
	fmt.Fprintf(out, "%d pods take more than 10 MB: %t\n", pods.Len(), ofPods > 10_000_000)
	fmt.Fprintf(out, "the metadata of %d pods takes less than 5 MB: %t\n", metadata.Len(), ofMetadata < 5_000_000)
	fmt.Fprintf(out, "%d places take less than 1 MB: %t\n", places.Len(), ofPlaces < 1_000_000)
	return nil
}

// measured fills a cache and returns the heap that it takes.
func measured[T any](ctx context.Context, config *rest.Config, newInformer func(*rest.Config) (*informer.Informer[T], error)) (*store.View[T], int64, error) {
	i, err := newInformer(config)
	if err != nil {
		return nil, 0, err
	}
	before := heap()
	err = cluster.While(ctx, i.Run, i.WaitForSync)
	cache := i.Cache()
	i = nil
	return cache, heap() - before, err
}

func heap() int64 {
	for range 3 { // finalizers and pools free memory in later rounds
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// newPod returns a pod of some kilobytes, a usual size.
func newPod(i int) *corev1.Pod {
	text := func(what string) string { return strings.Repeat(fmt.Sprintf("%s of pod %d; ", what, i), 40) }
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("web-%03d", i), Labels: map[string]string{"team": "sales"},
			Annotations: map[string]string{"example.com/notes": text("notes")},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%7)},
	}
	for _, name := range []string{"main", "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: text("image"), Args: []string{text("first"), text("second")},
			Env: []corev1.EnvVar{{Name: "A", Value: text("a")}, {Name: "B", Value: text("b")}},
		})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Image: text("image"), ImageID: text("id")})
	}
	return pod
}
