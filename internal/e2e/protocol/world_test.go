package protocol

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

type (
	configMap = corev1.ConfigMap
	mirror    = reflector.KubernetesResourceReflector[*configMap]
)

// patience is how long anything may take before a scenario fails. A back-off alone can be half a minute,
// and where twenty programs share two processors, the first list of 13 MiB under the race detector takes
// two minutes instead of two seconds.
const patience = 5 * time.Minute

// world is a server, a reflector of the ConfigMaps of one of its namespaces, and what they say to
// each other.
type world struct {
	*testing.T
	server *apiserver.Server
	mode   mode

	// To be changed before start: where the ConfigMaps are, and what of the cache the reflector
	// sees.
	namespace string
	store     store.Store[*configMap]
	opts      []reflector.Option

	cache     *store.Cache[*configMap]
	traffic   *traffic
	reflector *mirror
	stop      func() // ends the Run that goes on, and waits for it

	clientset kubernetes.Interface // the scenario's own: not in the traffic

	mu   sync.Mutex
	errs []error
}

func newWorld(t *testing.T, server *apiserver.Server, m mode) *world {
	t.Helper()
	cache := store.New(store.ObjectKey[*configMap])
	w := &world{T: t, server: server, mode: m, store: cache, cache: cache, traffic: &traffic{}}
	w.clientset = w.client(server.Config())
	w.namespace = server.Namespace(t)
	t.Cleanup(func() {
		t.Logf("traffic: %v", w.traffic)
		if t.Failed() {
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Logf("the reflector's errors: %v", w.errs)
		}
	})
	return w
}

func (w *world) client(config *rest.Config) kubernetes.Interface {
	w.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(w, err)
	// Those of all clients of the server, whose configurations are equal but for the wrapper:
	// client-go keeps one transport for them.
	w.Cleanup(client.CloseIdleConnections)
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	require.NoError(w, err)
	return clientset
}

func (w *world) configMaps() typedcorev1.ConfigMapInterface {
	return w.clientset.CoreV1().ConfigMaps(w.namespace)
}

// start lets the reflector run: a new one the first time, the same one later.
func (w *world) start() {
	w.Helper()
	if w.reflector == nil {
		config := w.server.Config()
		config.ContentType = "application/json" // in which the traffic can be read
		config.Wrap(w.traffic.wrap)
		note := reflector.WithErrorHandler(func(_ context.Context, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errs = append(w.errs, err)
		})
		opts := append(append([]reflector.Option{note}, w.mode.opts...), w.opts...)
		w.reflector = reflector.New(w.client(config).CoreV1().ConfigMaps(w.namespace), w.store, opts...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.reflector.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(w, <-ended)
	})
	w.Cleanup(w.stop)
}

// await waits for a channel to be closed.
func (w *world) await(what string, done <-chan struct{}) {
	w.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		w.Fatalf("waited %v for %s; the store holds %d objects; the reflector: %+v", patience, what, w.cache.Len(), w.reflector.State())
	}
}

// awaitPhase waits until the reflector is in a phase.
func (w *world) awaitPhase(phase reflector.Phase) {
	w.Helper()
	for state := w.reflector.State(); state.Phase != phase; state = w.reflector.State() {
		w.await(string(phase), w.reflector.Changed(state))
	}
}

// insist does something until the server does not refuse it: one that was just started again may
// for a moment.
func (w *world) insist(do func(context.Context) error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		return last == nil, nil
	})
	require.NoError(w, err, "%v", last)
}

// create makes a ConfigMap, and is content if it is there.
func (w *world) create(name string) {
	w.Helper()
	w.insist(func(ctx context.Context) error {
		_, err := w.configMaps().Create(ctx, &configMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// fill makes ConfigMaps, to begin with.
func (w *world) fill(n int) {
	w.Helper()
	require.NoError(w, fill(w.Context(), w.configMaps(), n, 256))
}

func fill(ctx context.Context, configMaps typedcorev1.ConfigMapInterface, n, size int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			_, err := configMaps.Create(ctx, &configMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%06d", i)},
				Data:       map[string]string{"key": utilrand.String(size)},
			}, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// settle starts the reflector on 50 ConfigMaps, of which some have changed since its first state.
func (w *world) settle() {
	w.Helper()
	w.fill(50)
	w.start()
	w.change(0)
	w.requireEqual()
}

// whileStopped calls a function while a settled reflector is stopped and misses changes.
func (w *world) whileStopped(do func()) {
	w.Helper()
	w.settle()
	w.stop()
	w.change(1)
	do()
	w.start()
	w.change(2)
}

// crash kills kube-apiserver once the traffic has reached a pause, and starts it again.
func (w *world) crash(at *pause) {
	w.Helper()
	w.await("a part of an answer", at.reached)
	require.NoError(w, w.server.KillAPIServer())
	at.resume()
	require.NoError(w, w.server.StartAPIServer())
}

// change makes one ConfigMap of each fate: changed, deleted, deleted and made anew, and new. It
// expects what fill made, and may be called once for each ten of them.
func (w *world) change(ten int) {
	w.Helper()
	name := func(i int) string { return fmt.Sprintf("%06d", 10*ten+i) }
	w.patch(name(0), `{"data":{"changed":"yes"}}`)
	w.remove(name(1))
	w.remove(name(2))
	w.create(name(2))
	w.create(fmt.Sprintf("new-%d", ten))
}

func (w *world) patch(name, patch string) {
	w.Helper()
	w.insist(func(ctx context.Context) error {
		_, err := w.configMaps().Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		return err
	})
}

func (w *world) remove(name string) {
	w.Helper()
	w.insist(func(ctx context.Context) error {
		err := w.configMaps().Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// flood makes more changes than there is room for between the server and a reflector that does not
// read: an HTTP/2 stream takes 4 MiB. Those who need to know that it was enough give a function
// that says so; it goes on until then.
func (w *world) flood(enough func() bool) {
	w.Helper()
	large := strings.Repeat("x", 64<<10)
	for round := 0; round < 8 || !enough(); round++ {
		require.Less(w, round, 100, "the server bears with a slow consumer for too long")
		for i := range 10 {
			w.patch(fmt.Sprintf("%06d", i), fmt.Sprintf(`{"data":{"round":"%d","large":"%s"}}`, round, large))
		}
	}
}

// requireEqual waits until the store has seen all that happened so far, and requires that it holds
// what the server lists.
func (w *world) requireEqual() {
	w.Helper()
	fence := store.Key{Namespace: w.namespace, Name: "fence-" + utilrand.String(8)} // others leave theirs in a namespace that is shared
	w.create(fence.Name)
	h := holder{fence, make(chan struct{})}
	defer w.cache.Follow(h)()
	w.await("the store to hold what was made last", h.held)

	all, err := w.configMaps().List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	got := maps.Collect(w.cache.All())
	require.Equal(w, len(all.Items), len(got), "number of objects") // require.Len prints all of them
	for i := range all.Items {
		want := &all.Items[i]
		key := store.Key{Namespace: want.Namespace, Name: want.Name}
		if !reflect.DeepEqual(want, got[key]) { // require.Equal takes seconds for thousands
			require.Equal(w, want, got[key], key)
		}
	}
	order, err := resourceversion.CompareResourceVersion(w.cache.ResourceVersion(), got[fence].ResourceVersion)
	require.NoError(w, err)
	require.GreaterOrEqual(w, order, 0, "the store is complete up to what was made last")
}

// requireFullLists requires a number of full lists, in the way of the mode.
func (w *world) requireFullLists(want int, why string) {
	w.Helper()
	require.Equal(w, want, w.traffic.fullLists(), "full lists: %s; %v", why, w.traffic)
	require.Equal(w, want, w.traffic.answered(w.mode.kind), "full lists, in the way of the mode; %v", w.traffic)
}

// end requires that the store holds what the server lists, after a number of full lists.
func (w *world) end(lists int, why string) {
	w.Helper()
	w.requireEqual()
	w.requireFullLists(lists, why)
}

// endAfterExpiry requires the same after the server has refused one version.
func (w *world) endAfterExpiry() {
	w.Helper()
	w.requireEqual()
	require.Equal(w, 1, w.traffic.expired(), "%v", w.traffic)
	w.requireFullLists(2, "the first state, and one after its version had expired")
}

// holder follows a cache until it holds something under a key.
type holder struct {
	key  store.Key
	held chan struct{}
}

func (h holder) Start(state *store.Snapshot[*configMap]) {
	if _, ok := state.Get(h.key); ok {
		close(h.held)
	}
}

func (h holder) Commit(commit *store.Commit[*configMap]) {
	for _, change := range commit.Changes {
		if change.Key == h.key && change.Type == store.Addition {
			close(h.held)
		}
	}
}

// mode is a way to get the first state.
type mode struct {
	name string
	opts []reflector.Option
	// kind is that of the request that begins a full list, of a server that can answer it.
	kind kind
}

var modes = []mode{
	{"watch-list", nil, watchList},
	{"list and watch", []reflector.Option{reflector.WithoutWatchList()}, list},
}

var (
	shared           apiserver.Shared
	withoutWatchList = apiserver.Shared{Options: apiserver.Options{APIServerFlags: map[string][]string{
		"feature-gates": {"WatchList=false"},
	}}}
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(withoutWatchList.Tests(m))) }

// eachMode runs a scenario once a mode, on the server that they all share.
func eachMode(t *testing.T, scenario func(*world)) {
	t.Helper()
	eachModeOn(t, &shared, scenario)
}

func eachModeOn(t *testing.T, server *apiserver.Shared, scenario func(*world)) {
	t.Helper()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) { scenario(newWorld(t, server.Server(t), m)) })
	}
}
