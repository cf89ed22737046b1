package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const changes = 1000

// demo lets the handler of each informer be stuck, one informer after the other.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	fmt.Fprintf(out, "The handler is stuck while a ConfigMap of 50 KiB changes %d times:\n", changes)
	for _, of := range []struct {
		name string
		new  func(cluster.Cluster, func(*corev1.ConfigMap)) subject
	}{{"client-go", clientGo}, {"kubereflector", ours}} {
		kept, calls, err := stall(ctx, c, of.new)
		if err != nil || ctx.Err() != nil {
			return err
		}
		memory := fmt.Sprintf("about %.0f MiB", math.Round(kept/50)*50)
		if kept < 5 {
			memory = "less than 5 MiB"
		}
		fmt.Fprintf(out, "  %s keeps %s and calls the handler %d times\n", of.name, memory, calls)
	}
	return nil
}

// stall changes a ConfigMap while its handler is stuck, and then lets the handler go on.
func stall(ctx context.Context, c cluster.Cluster, newSubject func(cluster.Cluster, func(*corev1.ConfigMap)) subject) (kept float64, calls int, err error) {
	letter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "letter"}}
	if err := c.Memory.Create(letter); err != nil {
		return 0, 0, err
	}
	began, release, last := make(chan struct{}), make(chan struct{}), make(chan struct{})
	version := ""
	s := newSubject(c, func(object *corev1.ConfigMap) {
		if calls++; calls == 1 {
			close(began)
		}
		select {
		case <-release:
		case <-ctx.Done():
			return
		}
		if object.ResourceVersion == version {
			close(last)
		}
	})
	err = cluster.While(ctx, s.run, func(ctx context.Context) error {
		goOn := sync.OnceFunc(func() { close(release) })
		defer goOn() // also after an error: the informer waits for its handler
		select {
		case <-began:
		case <-ctx.Done():
			return nil
		}
		before := liveHeap()
		for i := range changes {
			letter.Data = map[string]string{"text": strings.Repeat(fmt.Sprint(i%10), 50<<10)}
			if err := c.Memory.Update(letter); err != nil {
				return err
			}
			for ctx.Err() == nil && (i%10 == 0 || i == changes-1) {
				if cached, ok := s.get("letter"); ok && cached.ResourceVersion == letter.ResourceVersion {
					break // the watch has caught up
				}
				runtime.Gosched()
			}
		}
		kept = liveHeap() - before
		version = letter.ResourceVersion
		goOn()
		select {
		case <-last:
		case <-ctx.Done():
		}
		return c.Memory.Delete(letter)
	})
	return kept, calls, err
}

// liveHeap returns the MiB in use.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // frees the pools as well
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}
