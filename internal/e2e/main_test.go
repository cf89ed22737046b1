package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var shared apiserver.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

// newClientset returns a clientset whose connections end with the test.
func newClientset(t *testing.T, server *apiserver.Server) kubernetes.Interface {
	t.Helper()
	config := server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return clientset
}

// background runs something until the end of the test, or until the returned function is called, which waits for its end and returns its error.
func background(t *testing.T, run func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- run(ctx) }()
	stop = func() error {
		cancel()
		err := <-result
		result <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// await waits for a channel to be closed, as long as the test may run.
func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-t.Context().Done():
		t.Fatalf("the test ended while it waited for %s", what)
	}
}

// history is a handler's memory: it checks that the events of each key are a legal sequence, and knows the state that they lead to.
type history struct {
	mu      sync.Mutex
	state   map[store.Key]*corev1.ConfigMap
	counts  map[eventqueue.Type]int
	illegal []string

	fence    string // the name of an object that is made last
	sawFence chan struct{}
}

func newHistory(fence string) *history {
	return &history{
		state:    map[store.Key]*corev1.ConfigMap{},
		counts:   map[eventqueue.Type]int{},
		fence:    fence,
		sawFence: make(chan struct{}),
	}
}

func (h *history) note(e eventqueue.Event[*corev1.ConfigMap]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[e.Type]++
	if problem := h.problem(e); problem != "" {
		h.illegal = append(h.illegal, fmt.Sprintf("%v: %s", e, problem))
	}
	if h.state[e.Key] = e.Object; e.Type == eventqueue.Deletion {
		delete(h.state, e.Key)
	}
	if e.Object.Name == h.fence && e.Type == eventqueue.Addition {
		close(h.sawFence)
	}
}

// problem says what is wrong with the next event of a key.
func (h *history) problem(e eventqueue.Event[*corev1.ConfigMap]) string {
	known := h.state[e.Key]
	switch {
	case e.Object.Namespace != e.Key.Namespace || e.Object.Name != e.Key.Name:
		return "its object is another one"
	case e.PriorKnown != (e.Prior != nil):
		return "its prior object is not what it says"
	case e.Type == eventqueue.Addition && known != nil:
		return "the object was there already"
	case e.Type == eventqueue.Modification && known == nil:
		return "the object was not there"
	case e.Type == eventqueue.Deletion && known == nil && !e.Initial:
		return "the object was never there"
	case known != e.Prior:
		return "its prior object is not the one of the event before"
	case e.Type == eventqueue.Modification && e.Prior.UID != e.Object.UID:
		return "the object was created anew in between"
	}
	return ""
}

// errorList collects what goes wrong on several goroutines.
type errorList struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorList) note(_ context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorList) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.errs...)
}
