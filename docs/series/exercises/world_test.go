package exercises

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// world is an in-memory API server and an informer of its ConfigMaps. Its methods panic if they
// fail.
type world struct {
	server     *reflectortest.Server
	configMaps *informer.Informer[*corev1.ConfigMap]
	ctx        context.Context
	ended      chan error

	mu      sync.Mutex
	printed strings.Builder
}

func (w *world) print(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.printed, format+"\n", arguments...)
}

// printEvent prints an event with the prior and the new text of the ConfigMap. The prior text is
// "none" if the handler received no earlier state.
func (w *world) printEvent(event eventqueue.Event[*corev1.ConfigMap]) {
	prior := "none"
	if event.PriorKnown {
		prior = event.Prior.Data["text"]
	}
	remark := ""
	switch {
	case event.Origin == eventqueue.Resync:
		remark = " (resync)"
	case event.Initial:
		remark = " (initial)"
	case event.Type == eventqueue.Deletion && !event.FinalStateKnown:
		remark = " (final state unknown)"
	}
	w.print("%v of %s: prior %s, now %s%s", event.Type, event.Key.Name, prior, event.Object.Data["text"], remark)
}

// handler calls the function for each event.
func handler(handle func(event eventqueue.Event[*corev1.ConfigMap]) error) informer.Handler[*corev1.ConfigMap] {
	return informer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, event eventqueue.Event[*corev1.ConfigMap]) error {
		return handle(event)
	})
}

// start starts the informer and waits for its first list.
func (w *world) start() {
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.configMaps.Run(w.ctx) }()
	must(w.configMaps.WaitForSync(w.ctx))
}

func (w *world) create(name, text string) { must(w.server.Create(configMap(name, text))) }
func (w *world) update(name, text string) { must(w.server.Update(configMap(name, text))) }
func (w *world) delete(name string)       { must(w.server.Delete(configMap(name, ""))) }

// settle waits a second, in which every handler finishes its work. In the synctest bubble, the
// second takes no time.
func settle() { <-time.After(time.Second) }

func configMap(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"text": text}}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// run runs a program and returns its output.
func run(t *testing.T, program func(w *world)) string {
	t.Helper()
	w := &world{}
	synctest.Test(t, func(t *testing.T) {
		w.server = reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(w.server.Config())
		must(err)
		w.configMaps = informer.New(clientset.CoreV1().ConfigMaps("default"))
		var stop context.CancelFunc
		w.ctx, stop = context.WithCancel(t.Context())
		program(w)
		stop()
		if w.ended != nil {
			must(<-w.ended)
		}
	})
	t.Log("\n" + w.printed.String())
	return w.printed.String()
}
