// Program projection keeps of each pod what it wants to know: where it runs. Beside it, an
// informer keeps whole pods, so that their memory can be compared.
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
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() { cluster.Main(run) }

// scheduled names the fields that are decoded, beside the metadata. All others are passed
// over where the bytes are read: nothing is made of them.
type scheduled struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// place is what is kept.
type place struct{ namespace, pod, node string }

func (p *place) GetNamespace() string { return p.namespace }
func (p *place) GetName() string      { return p.pod }

func placeOf(pod *scheduled) (*place, error) {
	return &place{pod.Namespace, pod.Name, pod.Spec.NodeName}, nil
}

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if c.Memory != nil {
		if err := fill(ctx, c); err != nil {
			return err
		}
	}
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	wholePods, err := client.ForResource[*corev1.Pod](c.Config, resource, "default")
	if err != nil {
		return err
	}
	// Labels, annotations and the like are metadata, and end with the scheduled pod.
	fewFields, err := client.ForResource[*scheduled](c.Config, resource, "default", client.WithoutManagedFields())
	if err != nil {
		return err
	}

	var pods *store.View[*corev1.Pod]
	var places *store.View[*place]
	var ofPods, ofPlaces int64
	for range 2 { // the first time is for what the server in memory remembers of each format
		pods, places = nil, nil
		ofPods, err = heapOf(func() error { pods, err = filled(ctx, informer.New(wholePods)); return err })
		if err != nil {
			return err
		}
		ofPlaces, err = heapOf(func() error {
			places, err = filled(ctx, informer.NewTransformed(fewFields, placeOf, store.ObjectKey[*place]))
			return err
		})
		if err != nil {
			return err
		}
	}

	told := 0
	for key, p := range places.All() {
		fmt.Fprintf(out, "%s is on %s\n", key, p.node)
		if told++; told == 10 {
			break
		}
	}
	fmt.Fprintf(out, "%d pods, %d places\n", pods.Len(), places.Len())
	fmt.Fprintf(out, "the places take less than a tenth of the memory of the pods: %t\n", 10*ofPlaces < ofPods)
	return nil
}

// filled runs an informer until its cache is filled, and returns the cache alone.
func filled[T any](ctx context.Context, i *informer.Informer[T]) (*store.View[T], error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- i.Run(running) }()
	err := i.WaitForSync(ctx)
	stop()
	return i.Cache(), errors.Join(err, <-ended)
}

// heapOf returns how much more memory is in use after f, when all that is not has been
// freed.
func heapOf(f func() error) (int64, error) {
	before := heap()
	err := f()
	return heap() - before, err
}

func heap() int64 {
	for range 3 { // what has a finalizer, or is in a pool, goes later
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// fill gives the API server in memory pods of some kilobytes each, as those of clusters are.
func fill(ctx context.Context, c cluster.Cluster) error {
	for i := range 1000 {
		text := func(what string) string { return strings.Repeat(fmt.Sprintf("%s of pod %d; ", what, i), 40) }
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%03d", i), Annotations: map[string]string{"example.com/notes": text("notes")}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%7)},
		}
		for _, name := range []string{"main", "proxy"} {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
				Name: name, Image: text("image"), Args: []string{text("first"), text("second")},
				Env: []corev1.EnvVar{{Name: "A", Value: text("a")}, {Name: "B", Value: text("b")}},
			})
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Image: text("image"), ImageID: text("id")})
		}
		if _, err := c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
