package reconcile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/recorder"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/store"
)

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
	configMaps, err := manager.Informer[*corev1.ConfigMap](p.Manager, manager.Source{LabelSelector: "paint=yes"})
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
