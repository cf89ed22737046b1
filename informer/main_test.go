package informer

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name, uid string, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}}
}

// newPods returns an informer whose reflector is in the hands of the test: what is
// written to its cache is what the reflector brings.
func newPods(opts ...Option) *Informer[*corev1.Pod] {
	i := New(fake.NewClientset().CoreV1().Pods("default"), opts...)
	i.feed = &idleFeed{i.feed}
	return i
}

type idleFeed struct{ feed.Group }

func (*idleFeed) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func start(t *testing.T, i interface{ Run(context.Context) error }) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- i.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

// diary is a handler that writes down its calls.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.lines...)
}

func (d *diary) funcs() HandlerFuncs[*corev1.Pod] {
	return HandlerFuncs[*corev1.Pod]{
		OnAdd: func(p *corev1.Pod, initial bool) {
			word := "add"
			if initial {
				word = "initial"
			}
			d.write("%s %s@%s", word, p.Name, p.ResourceVersion)
		},
		OnUpdate: func(prior, p *corev1.Pod) {
			d.write("update %s@%s>%s", p.Name, prior.ResourceVersion, p.ResourceVersion)
		},
		OnDelete: func(p *corev1.Pod, finalStateKnown bool) {
			word := "delete"
			if !finalStateKnown {
				word = "missing"
			}
			d.write("%s %s@%s", word, p.Name, p.ResourceVersion)
		},
	}
}

// keyed is a handler that writes down types and keys.
func keyed(d *diary) Handler[*corev1.Pod] {
	return HandlerFunc[*corev1.Pod](func(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
		d.write("%v %v initial=%t", e.Type, e.Key, e.Initial)
		return nil
	})
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// newServed returns an informer of the pods of a server.
func newServed(t *testing.T, server *reflectortest.Server, opts ...Option) *Informer[*corev1.Pod] {
	return New(clientOf(t, server).CoreV1().Pods("default"), opts...)
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func onNode(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

func clientOf(t *testing.T, server *reflectortest.Server) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return client
}
