package network

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// faults are those of a network that show within seconds.
var faults = map[string]struct {
	fault Fault
	// breaks says that the watch ends: Ready must fail until the line is mended.
	breaks bool
	// request is what becomes of another request meanwhile: nil, or what its error is.
	request error
}{
	"closed":    {Fault{End: Closed}, true, errFailed},
	"reset":     {Fault{End: Reset}, true, errFailed},
	"handshake": {Fault{End: Closed, After: 100}, true, errFailed},
	"truncated": {Fault{End: Reset, After: 20_000}, true, errFailed}, // in the middle of an object
	"stalled":   {Fault{Stall: true}, false, context.DeadlineExceeded},
	"delayed":   {Fault{Delay: 50 * time.Millisecond}, false, nil},
}

var errFailed = errors.New("any error but a time-out")

// limits are how many requests an informer may need from a fault that breaks its watch until it is ready again, and how many of them may be lists. The
// back-off bounds those that fail. A generated client repeats each that fails ten times by itself, a second apart. It also reports a broken connection
// as a broken object at times, which costs a list. A fault that does not break the watch costs no request.
var limits = map[string]struct{ requests, lists int }{
	"resource":  {16, 0},
	"clientset": {36, 2},
}

// TestInformerSurvivesFaultyNetwork lets a fault come over a working watch, changes objects meanwhile, and mends the line.
func TestInformerSurvivesFaultyNetwork(t *testing.T) {
	for client := range clients {
		for name, c := range faults {
			t.Run(client+"/"+name, func(t *testing.T) {
				t.Parallel() // most of the time is back-off
				w := newWorld(t, client)
				w.create("same", "changed", "deleted", "again")
				w.run()
				w.eventually("ready", func(context.Context) bool { return w.informer.Ready() == nil })
				all, lists := w.requests.counts()

				w.line.Set(c.fault)
				w.change()
				w.requireRequest(c.request)
				if c.breaks {
					var notReady error // a watch that opens before it breaks makes the informer ready again
					w.eventually("not ready", func(context.Context) bool { notReady = w.informer.Ready(); return notReady != nil })
					var stale *informer.StaleError
					require.ErrorAs(t, notReady, &stale)
				}
				if c.request == nil {
					w.requireEqual() // the fault is no more than slow
				}

				w.line.Mend()
				w.requireEqual()
				w.eventually("ready", func(context.Context) bool { return w.informer.Ready() == nil })
				after, listed := w.requests.counts()
				t.Logf("requests: %d, lists: %d", after-all, listed-lists)
				if c.breaks {
					assert.LessOrEqual(t, after-all, limits[client].requests, "requests")
					assert.LessOrEqual(t, listed-lists, limits[client].lists, "lists")
				} else {
					assert.Zero(t, after-all, "requests")
				}
				w.requireRequest(nil)
			})
		}
	}
}

// TestInformerBehindFaultyNetworkIsNotReady begins with the fault.
func TestInformerBehindFaultyNetworkIsNotReady(t *testing.T) {
	for client := range clients {
		for name, c := range faults {
			if c.request == nil {
				continue
			}
			t.Run(client+"/"+name, func(t *testing.T) {
				t.Parallel() // most of the time is back-off
				w := newWorld(t, client)
				w.create("same", "changed", "deleted", "again")
				w.line.Set(c.fault)
				w.run()
				w.requireRequest(c.request)
				var unsynced *informer.SyncError
				require.ErrorAs(t, w.informer.Ready(), &unsynced)
				assert.Zero(t, w.informer.Cache().Len())

				w.line.Mend()
				w.eventually("ready", func(context.Context) bool { return w.informer.Ready() == nil })
				w.change()
				w.requireEqual()
			})
		}
	}
}

// requireRequest makes a request over the line, which ends well, or with an error before its time, or at its time.
func (w *world) requireRequest(want error) {
	w.Helper()
	limit := patience
	if want != nil && errors.Is(want, context.DeadlineExceeded) {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	require.NoError(w, err)
	response, err := w.through.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	switch {
	case want == nil:
		require.NoError(w, err)
	case errors.Is(want, errFailed):
		require.Error(w, err)
		require.NotErrorIs(w, err, context.DeadlineExceeded)
	default:
		require.ErrorIs(w, err, want)
	}
}

var shared apiserver.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

const (
	// patience is how long anything may take before a test fails. A back-off alone can be half a minute, and the machine may be slow.
	patience = 3 * time.Minute

	// staleness is how long a watch may be broken until the informers say so.
	staleness = 100 * time.Millisecond
)

// clients are the two ways to the ConfigMaps of a namespace.
var clients = map[string]func(t *testing.T, config *rest.Config, namespace string) *informer.Informer[*corev1.ConfigMap]{
	"resource": func(t *testing.T, config *rest.Config, namespace string) *informer.Informer[*corev1.ConfigMap] {
		resource, err := client.ForResource[*corev1.ConfigMap](config, corev1.SchemeGroupVersion.WithResource("configmaps"), namespace)
		require.NoError(t, err)
		return informer.New(resource, informer.WithStaleness(staleness))
	},
	"clientset": func(t *testing.T, config *rest.Config, namespace string) *informer.Informer[*corev1.ConfigMap] {
		return informer.New(clientset(t, config).CoreV1().ConfigMaps(namespace), informer.WithStaleness(staleness))
	},
}

// clientset returns a clientset whose connections end with the test.
func clientset(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	api, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(api.CloseIdleConnections)
	made, err := kubernetes.NewForConfigAndClient(config, api)
	require.NoError(t, err)
	return made
}

// requests counts those of a client, and the lists among them. A watch that begins with the state is one; a list of a single object is not.
type requests struct {
	next http.RoundTripper

	mu         sync.Mutex
	all, lists int
}

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	r.mu.Lock()
	r.all++
	if query.Get("watch") == "" && query.Get("fieldSelector") == "" || query.Get("sendInitialEvents") == "true" {
		r.lists++
	}
	r.mu.Unlock()
	return r.next.RoundTrip(request)
}

func (r *requests) counts() (all, lists int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all, r.lists
}

// world is an informer behind a line, and a client that has a way of its own.
type world struct {
	*testing.T
	line     *Line
	informer *informer.Informer[*corev1.ConfigMap]
	requests requests
	direct   typedcorev1.ConfigMapInterface
	through  *http.Client // uses the line, and tries nothing again
	url      string       // of the ConfigMaps, over the line
}

func newWorld(t *testing.T, api string) *world {
	t.Helper()
	server := shared.Server(t)
	namespace := server.Namespace(t)
	w := &world{T: t, direct: clientset(t, server.Config()).CoreV1().ConfigMaps(namespace)}
	config := server.Config()
	var err error
	w.line = Listen(t, config)
	w.through, err = rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(w.through.CloseIdleConnections)
	w.url = config.Host + "/api/v1/namespaces/" + namespace + "/configmaps"
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.requests.next = next
		return &w.requests
	})
	w.informer = clients[api](t, counted, namespace)
	return w
}

// run lets the informer run until the end of the test.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.informer.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		assert.NoError(w, <-ended)
	})
}

// eventually waits until something is so.
func (w *world) eventually(what string, so func(context.Context) bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) { return so(ctx), nil })
	require.NoError(w, err, "waited for: %s; the informer: %+v", what, w.informer.State())
}

// create makes ConfigMaps on the server, each too large for a connection that is truncated, and not to be compressed.
func (w *world) create(names ...string) {
	w.Helper()
	for _, name := range names {
		_, err := w.direct.Create(w.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Data:       map[string]string{"large": utilrand.String(100 << 10)},
		}, metav1.CreateOptions{})
		require.NoError(w, err)
	}
}

// change has one ConfigMap of each fate: changed, deleted, created again, and new.
func (w *world) change() {
	w.Helper()
	_, err := w.direct.Patch(w.Context(), "changed", "application/merge-patch+json", []byte(`{"data":{"key":"value"}}`), metav1.PatchOptions{})
	require.NoError(w, err)
	require.NoError(w, w.direct.Delete(w.Context(), "deleted", metav1.DeleteOptions{}))
	require.NoError(w, w.direct.Delete(w.Context(), "again", metav1.DeleteOptions{}))
	w.create("again", "new")
}

// requireEqual waits until the cache holds what the server does, by UID and resource version.
func (w *world) requireEqual() {
	w.Helper()
	want := map[store.Key][2]string{}
	list, err := w.direct.List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	for _, object := range list.Items {
		want[store.Key{Namespace: object.Namespace, Name: object.Name}] = [2]string{string(object.UID), object.ResourceVersion}
	}
	w.eventually("the cache to be like the server", func(context.Context) bool {
		got := map[store.Key][2]string{}
		for key, object := range w.informer.Cache().All() {
			got[key] = [2]string{string(object.UID), object.ResourceVersion}
		}
		return assert.ObjectsAreEqual(want, got)
	})
}
