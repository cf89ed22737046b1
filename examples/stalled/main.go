// Program stalled tells two informers, client-go's and ours, of a thousand changes of
// one ConfigMap while the handler of each is stuck, and prints how much memory each
// keeps for it: one every state, the other the latest. Then the handlers go on, and it
// prints how often each is called.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

func main() {
	if err := run(context.Background(), os.Stdout, 1_000); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// subject is an informer with one handler.
type subject struct {
	run  func(context.Context)
	seen func() string // the resource version of the letter in its cache
}

func run(ctx context.Context, out io.Writer, changes int) error {
	fmt.Fprintf(out, "After %d changes of 50 KiB, of which a stuck handler heard nothing:\n", changes)
	for _, of := range []struct {
		name  string
		start func(kubernetes.Interface, func(*corev1.ConfigMap)) subject
	}{{"client-go", clientGos}, {"kubereflector", ours}} {
		kept, calls, err := stall(ctx, of.start, changes)
		if err != nil {
			return err
		}
		words := fmt.Sprintf("about %.0f MiB", math.Round(kept/50)*50)
		if kept < 5 {
			words = "less than 5 MiB"
		}
		fmt.Fprintf(out, "%s keeps %s, and then calls it %d times\n", of.name, words, calls)
	}
	return nil
}

func clientGos(clientset kubernetes.Interface, handle func(*corev1.ConfigMap)) subject {
	configMaps := informers.NewSharedInformerFactory(clientset, 0).Core().V1().ConfigMaps()
	_, _ = configMaps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { handle(object.(*corev1.ConfigMap)) },
		UpdateFunc: func(_, object any) { handle(object.(*corev1.ConfigMap)) },
	})
	return subject{configMaps.Informer().RunWithContext, func() string {
		letter, err := configMaps.Lister().ConfigMaps("default").Get("letter")
		if err != nil {
			return ""
		}
		return letter.ResourceVersion
	}}
}

func ours(clientset kubernetes.Interface, handle func(*corev1.ConfigMap)) subject {
	configMaps := informer.New(clientset.CoreV1().ConfigMaps(""))
	configMaps.Handle(informer.HandlerFuncs[*corev1.ConfigMap]{
		OnAdd:    func(object *corev1.ConfigMap, _ bool) { handle(object) },
		OnUpdate: func(_, object *corev1.ConfigMap) { handle(object) },
	})
	return subject{func(ctx context.Context) { _ = configMaps.Run(ctx) }, func() string {
		letter, ok := configMaps.Cache().Get(store.Key{Namespace: "default", Name: "letter"})
		if !ok {
			return ""
		}
		return letter.ResourceVersion
	}}
}

// stall changes a ConfigMap while its handler is stuck, and lets it go on then.
func stall(ctx context.Context, start func(kubernetes.Interface, func(*corev1.ConfigMap)) subject, changes int) (kept float64, calls int, err error) {
	server, err := reflectortest.NewServer(reflectortest.WithHistory(20))
	if err != nil {
		return 0, 0, err
	}
	defer server.Close()
	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		return 0, 0, err
	}
	letter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "letter"}}
	if err := server.Create(letter); err != nil {
		return 0, 0, err
	}

	began, stuck, told, last := make(chan struct{}), make(chan struct{}), make(chan struct{}), ""
	s := start(clientset, func(object *corev1.ConfigMap) {
		if calls++; calls == 1 {
			close(began)
		}
		<-stuck
		if object.ResourceVersion == last {
			close(told)
		}
	})
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	defer running.Wait()
	defer stop()

	<-began
	before := liveHeap()
	for i := range changes {
		letter.Data = map[string]string{"text": strings.Repeat(fmt.Sprint(i%10), 50<<10)}
		if err := server.Update(letter); err != nil {
			return 0, 0, err
		}
		for (i%10 == 0 || i == changes-1) && s.seen() != letter.ResourceVersion {
			runtime.Gosched() // no quicker than it is read
		}
	}
	kept = liveHeap() - before
	last = letter.ResourceVersion
	close(stuck)
	<-told
	return kept, calls, nil
}

// liveHeap returns the MiB that are in use.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // what was in a pool at the first one
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}
