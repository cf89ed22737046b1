package clientgo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestMain(m *testing.M) {
	// The usual handlers sleep until a time that is far away in a synctest bubble.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{reported.note}
	goleak.VerifyTestMain(m)
}

// reported is what was given to utilruntime.HandleErrorWithContext and its like.
var reported reports

type reports struct {
	mu     sync.Mutex
	errs   []error
	values []any // of the last one
}

func (r *reports) note(_ context.Context, err error, _ string, values ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs, r.values = append(r.errs, err), values
}

// take returns what was reported since it was last called.
func (r *reports) take() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := r.errs
	r.errs = nil
	return errs
}

type (
	configMap = corev1.ConfigMap
	shared    = SharedIndexInformer[*configMap]
	runner    interface{ RunWithContext(context.Context) }
)

// named returns a ConfigMap whose content is one word, if any.
func named(name string, word ...string) *configMap {
	m := &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if len(word) > 0 {
		m.Data = map[string]string{"word": word[0]}
	}
	return m
}

// stored returns a ConfigMap as a server would have it.
func stored(name, uid, version string, word ...string) *configMap {
	m := named(name, word...)
	m.UID, m.ResourceVersion = types.UID(uid), version
	return m
}

// clientset returns a client of a server.
func clientset(t *testing.T, server *reflectortest.Server) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return client
}

// configMaps returns a client of the ConfigMaps of a server.
func configMaps(t *testing.T, server *reflectortest.Server) reflector.Client[*configMap, *corev1.ConfigMapList] {
	return clientset(t, server).CoreV1().ConfigMaps("")
}

func create(t *testing.T, server *reflectortest.Server, objects ...metav1.Object) {
	t.Helper()
	for _, object := range objects {
		require.NoError(t, server.Create(object))
	}
}

// run runs something until the returned function is called, which waits for its end.
func run(t *testing.T, r runner) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.RunWithContext(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// diary is an event handler that writes down its calls.
type diary struct {
	// before is called at the beginning of each call; it may be nil.
	before func()

	mu    sync.Mutex
	lines []string
}

func (d *diary) OnAdd(object any, initial bool) {
	word := "add"
	if initial {
		word = "initial"
	}
	d.write("%s %s", word, short(object))
}

func (d *diary) OnUpdate(prior, object any) {
	if prior == object {
		d.write("resync %s", short(object))
		return
	}
	d.write("update %s>%s", short(prior), short(object))
}

func (d *diary) OnDelete(object any) {
	if lost, ok := object.(cache.DeletedFinalStateUnknown); ok {
		d.write("missing %s %s", lost.Key, short(lost.Obj))
		return
	}
	d.write("delete %s", short(object))
}

// short returns the name of an object and its word.
func short(object any) string {
	m, err := meta.Accessor(object)
	if err != nil {
		return fmt.Sprint(object)
	}
	if c, ok := object.(*configMap); ok && c.Data["word"] != "" {
		return m.GetName() + ":" + c.Data["word"]
	}
	return m.GetName()
}

func (d *diary) write(format string, args ...any) {
	if d.before != nil {
		d.before()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// take returns what was written since it was last called.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// done reports whether a channel is closed.
func done(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() klog.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, line)
	}, funcr.Options{})
}

func (l *lines) read() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// withLogger runs something with a logger in the context.
type withLogger struct {
	runner
	logger klog.Logger
}

func (w withLogger) RunWithContext(ctx context.Context) {
	w.runner.RunWithContext(klog.NewContext(ctx, w.logger))
}
