package exercises

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// world is an API server in memory, and what a program runs on. Its methods panic if they fail.
type world struct {
	server *reflectortest.Server
	subject
	ctx   context.Context
	ended chan error

	mu      sync.Mutex
	printed strings.Builder
}

// subject is an informer of ConfigMaps and a collection without a server: either the small types of
// examples/series (model_test.go) or the library (library_test.go).
type subject interface {
	// handle adds a handler.
	handle(handler func(event) error)
	// known returns the names of the objects in the informer's store.
	known() []string
	run(ctx context.Context) error

	add(name, text string)
	change(name, text string)
	remove(name string)
	resync()
	// take takes the next queue, and returns a function that hands its events to a consumer and
	// acknowledges them. The function is nil if no queue waits.
	take(consumer func(event)) (finish func())
}

// event is what a handler gets. The prior text is "none" if there is no prior object.
type event struct{ verb, name, prior, now, remark string }

func (e event) String() string {
	return fmt.Sprintf("%s of %s: prior %s, now %s%s", e.verb, e.name, e.prior, e.now, e.remark)
}

func (w *world) print(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.printed, format+"\n", arguments...)
}

// printEvent is a handler that succeeds.
func (w *world) printEvent(e event) error {
	w.print("%v", e)
	return nil
}

// start starts the informer, and waits until it has listed.
func (w *world) start() {
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.run(w.ctx) }()
	settle()
}

func (w *world) create(name, text string) { must(w.server.Create(configMap(name, text))) }
func (w *world) update(name, text string) { must(w.server.Update(configMap(name, text))) }
func (w *world) delete(name string)       { must(w.server.Delete(configMap(name, ""))) }

// goAway breaks all connections to the server and refuses new ones. When the server is back, it has
// discarded its history, so that no client can resume a watch.
func (w *world) goAway() (comeBack func()) {
	away := w.server.Inject(reflectortest.Refuse().On("", "configmaps"))
	must(w.server.Restore(w.server.ResourceVersion())) // restores nothing, but breaks connections
	return func() {
		must(w.server.Compact(w.server.ResourceVersion()))
		<-time.After(time.Minute)
		away.Remove()
		<-time.After(time.Minute)
	}
}

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

// output runs a program on the small types or on the library, and returns what it prints.
func output(t *testing.T, program func(w *world), on func(typedcorev1.ConfigMapInterface) subject) string {
	t.Helper()
	w := &world{}
	synctest.Test(t, func(t *testing.T) {
		w.server = reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(w.server.Config())
		must(err)
		w.subject = on(clientset.CoreV1().ConfigMaps("default"))
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
