package series

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type pod = *corev1.Pod

// newPod returns a pod of the default namespace. A server ignores the version.
func newPod(name, version string) pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: version}}
}

// world is an API server in memory, with a client of its pods.
type world struct {
	*reflectortest.Server
	pods typedcorev1.PodInterface
}

// inWorld runs a subtest in a synctest bubble, where hours take no time, and cancels ctx at its end.
func inWorld(t *testing.T, name string, test func(t *testing.T, ctx context.Context, w world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			clientset, err := kubernetes.NewForConfig(server.Config())
			assert.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer stop()
			test(t, ctx, world{server, clientset.CoreV1().Pods("")})
		})
	})
}

func (w world) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		assert.NoError(t, w.Create(newPod(name, "")))
	}
}

// requestsForAllObjects counts lists, and watches that begin with a list. It leaves out a request for
// one object, by which the library looks whether it missed something.
func (w world) requestsForAllObjects() (n int) {
	for _, r := range w.Requests() {
		if r.Verb == "list" && r.Query.Get("fieldSelector") == "" || r.Query.Get("sendInitialEvents") == "true" {
			n++
		}
	}
	return n
}

// notes is a handler that notes the calls that it gets.
type notes struct {
	mu    sync.Mutex
	calls []string
	stuck chan struct{} // if it is not nil, each call waits until it is closed
}

func (n *notes) OnAdd(p pod)       { n.note("added " + p.Name) }
func (n *notes) OnUpdate(_, p pod) { n.note("updated " + p.Name) }
func (n *notes) OnDelete(p pod)    { n.note("deleted " + p.Name) }

func (n *notes) note(call string) {
	n.mu.Lock()
	n.calls = append(n.calls, call)
	n.mu.Unlock()
	if n.stuck != nil {
		<-n.stuck
	}
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.calls)
}

// library is the same handler for the library.
func (n *notes) library() informer.Handler[pod] {
	return informer.HandlerFuncs[pod]{
		OnAdd:    func(p pod, _ bool) { n.OnAdd(p) },
		OnUpdate: n.OnUpdate,
		OnDelete: func(p pod, _ bool) { n.OnDelete(p) },
	}
}
