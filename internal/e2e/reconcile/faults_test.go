package reconcile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/recorder"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// backoff is the back-off of a reconciler after the first failure.
const backoff = 5 * time.Millisecond

// few is how many Foos there are in a test of faults.
const few = 5

// faulty is a sample controller behind a proxy.
type faulty struct {
	*sample
	*proxy
}

// Each test has Foos in a namespace of its own, and the same controller.
func TestFaultsAreSurvived(t *testing.T) {
	server := shared.Server(t)
	c := newClients(t, server)
	c.installFoos(t)
	p := startProxy(t, server)
	startSample(t, p.kubeconfig)
	for _, test := range []struct {
		name string
		run  func(*faulty)
	}{
		{"conflicts", (*faulty).conflicts},
		{"throttling", (*faulty).throttling},
		{"refusals of a webhook", (*faulty).refusals},
		{"a server that cannot be reached", (*faulty).unreachable},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(&faulty{newSample(t, c, server.Namespace(t)), p}) })
	}
}

func name(n int) string { return fmt.Sprint("foo-", n) }

func (f *faulty) createAll() {
	for n := range few {
		f.create(name(n), n)
	}
}

// spoilAll changes the Deployments.
func (f *faulty) spoilAll() {
	for n := range few {
		_, err := f.deployments.Patch(f.Context(), name(n), types.MergePatchType, []byte(`{"spec":{"replicas":9}}`), metav1.PatchOptions{})
		require.NoError(f, err)
	}
}

// right waits until everything is as it should be.
func (f *faulty) right() {
	f.Helper()
	for n := range few {
		f.has(name(n), int32(n))
		f.is(name(n), "0 available, generation 1, Progressing") // no controller of Deployments runs
	}
}

// first returns what reports whether a request is one of the first few to write to an object.
func first(times int) func(*http.Request) bool {
	var mu sync.Mutex
	seen := map[string]int{}
	return func(r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Method+r.URL.Path]++
		return seen[r.Method+r.URL.Path] <= times
	}
}

// conflicts has somebody else write to each object just before the controller does.
func (f *faulty) conflicts() {
	isFirst := first(1)
	f.doHarm(f.T, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost || !isFirst(r) {
			return false
		}
		var err error
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, time.Now())
		if object := strings.TrimSuffix(r.URL.Path, "/status"); strings.Contains(object, "/foos/") {
			_, err = f.foos.Patch(f.Context(), path.Base(object), types.MergePatchType, patch, metav1.PatchOptions{})
		} else {
			_, err = f.deployments.Patch(f.Context(), path.Base(object), types.MergePatchType, patch, metav1.PatchOptions{})
		}
		assert.NoError(f, err)
		return false
	})
	f.createAll()
	f.right()
	// A call that comes again before the cache shows what somebody else wrote meets one more.
	met := f.answers(http.StatusConflict)
	assert.GreaterOrEqual(f, met, few, "of the status of each")
	f.spoilAll()
	f.right()
	assert.GreaterOrEqual(f, f.answers(http.StatusConflict), met+few, "and of the repair of each")
}

// throttling has the first writes to each object come too early, once with a word when to come again, and once without.
func (f *faulty) throttling() {
	isFirst, isSecond := first(1), first(2)
	f.doHarm(f.T, func(w http.ResponseWriter, r *http.Request) bool {
		again := !isFirst(r)
		if second := isSecond(r); !second {
			return false
		}
		if !again {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return true
	})
	f.createAll()
	f.right()
	assert.GreaterOrEqual(f, f.answers(http.StatusTooManyRequests), 2*few, "of the status of each at least: creations have one path")
}

// refusals has a webhook refuse Deployments.
func (f *faulty) refusals() {
	const attempts = 8
	f.doHarm(f.T, nil)
	hook := f.startWebhook()
	f.createAll()
	for n := range few {
		eventually(f.T, "attempts to create Deployments", func() bool { return len(hook.times(name(n))) >= attempts })
	}
	hook.allow()
	f.right()
	for n := range few {
		times := hook.times(name(n))
		// The wait doubles with each failure, and is drawn from the upper half of that time.
		longest := backoff << (attempts - 2)
		assert.GreaterOrEqual(f, times[attempts-1].Sub(times[attempts-2]), longest/2, "they come with a back-off")
	}
	assert.Equal(f, few, f.answers(http.StatusCreated))
}

// unreachable cuts the controller off while things happen.
func (f *faulty) unreachable() {
	f.createAll()
	f.right()
	f.setCut(true)
	f.spoilAll()
	f.create("late", 1)
	require.NoError(f, f.deployments.Delete(f.Context(), name(0), metav1.DeleteOptions{}))
	<-time.After(3 * time.Second)
	assert.Nil(f, f.deployment("late"), "nobody can have done anything")
	f.setCut(false)
	f.right()
	f.has("late", 1)
	require.NoError(f, f.foos.Delete(f.Context(), "late", metav1.DeleteOptions{}))
	f.hasNot("late")
}

// painter is a process that paints ConfigMaps.
type painter struct {
	*manager.Manager
	stop func() error

	mu      sync.Mutex
	painted int // Guarded by mu
}

func (p *painter) paints() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.painted
}

func startPainter(t *testing.T, name string) *painter {
	t.Helper()
	config, clientset, _ := connect(t)
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "painter"}, Client: clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	p := &painter{Manager: manager.New(config, manager.WithElection(lock), manager.WithServer("127.0.0.1:0"))}
	configMaps, err := manager.Informer[*corev1.ConfigMap](p.Manager, manager.Selection{LabelSelector: "paint=yes"})
	require.NoError(t, err)
	events := recorder.New(clientset.EventsV1(), "painter")
	p.Add(events)
	manager.Reconcile(p.Manager, "painter", configMaps, func(ctx context.Context, key store.Key, held *corev1.ConfigMap) (reconcile.Result, error) {
		if held == nil {
			return reconcile.Result{}, nil
		}
		want := held.DeepCopy()
		want.Data = map[string]string{"color": "red"}
		written, err := write.Patch(ctx, clientset.CoreV1().ConfigMaps(key.Namespace), held, want)
		if err == nil && written != held {
			p.mu.Lock()
			p.painted++
			p.mu.Unlock()
			events.Eventf(written, nil, corev1.EventTypeNormal, "Painted", "Paint", "by %s", name)
		}
		return reconcile.Result{}, err
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	p.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { assert.NoError(t, p.stop()) })
	return p
}

func TestTwoProcessesAndOneLeader(t *testing.T) {
	_, clientset, namespace := connect(t)
	client := clientset.CoreV1().ConfigMaps(namespace)
	create := func(name string) {
		t.Helper()
		_, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"paint": "yes"}}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	one := startPainter(t, "one")
	eventually(t, "the first leads", one.Leading)
	two := startPainter(t, "two")
	create("a")
	eventually(t, "it is painted", func() bool { return one.paints() == 1 })
	eventually(t, "the second follows", func() bool { return two.Ready() == nil })
	assert.False(t, two.Leading())
	answer, err := http.Get("http://" + two.Address() + "/readyz?verbose")
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, err)
	http.DefaultClient.CloseIdleConnections()
	assert.Contains(t, string(text), "[+] painter: waits for the lease")

	require.NoError(t, one.stop())
	create("b")
	eventually(t, "the second takes over", func() bool { return two.paints() == 1 })
	require.NoError(t, two.stop())
	all, err := clientset.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var notes []string
	for _, e := range all.Items {
		notes = append(notes, fmt.Sprintf("%s %s", e.Regarding.Name, e.Note))
	}
	assert.ElementsMatch(t, []string{"a by one", "b by two"}, notes)
}
