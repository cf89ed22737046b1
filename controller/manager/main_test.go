package manager

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestMain(m *testing.M) {
	dieOfSignals()
	goleak.VerifyTestMain(m)
}

// journal is what happened, in order.
type journal struct {
	mu  sync.Mutex
	all []string // Guarded by mu
}

func (j *journal) addf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, fmt.Sprintf(format, args...))
}

// take returns what was noted since it was called last.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.all
	j.all = nil
	return all
}

// member is a member that notes when it begins and ends.
type member struct {
	name  string
	notes *journal
	run   func(ctx context.Context) error // nil: until ctx ends
	ready func() error                    // nil: it is
	alive func() error
}

func (m *member) Name() string { return m.name }

func (m *member) Run(ctx context.Context) error {
	m.notes.addf("%s begins", m.name)
	defer m.notes.addf("%s ends", m.name)
	if m.run != nil {
		return m.run(ctx)
	}
	<-ctx.Done()
	return nil
}

func (m *member) WaitForSync(context.Context) error { return nil }

func (m *member) Ready() error {
	if m.ready != nil {
		return m.ready()
	}
	return nil
}

func (m *member) Alive() error {
	if m.alive != nil {
		return m.alive()
	}
	return nil
}

// start runs something until the returned function is called, which returns what Run did.
func start(t *testing.T, m informer.Runnable) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- m.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func newLock(t *testing.T, server *reflectortest.Server, identity string) resourcelock.Interface {
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "lease"},
		Client:     clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

// watchingSecrets returns a manager with a reconciler "painter" of ConfigMaps that watches
// Secrets, whose informer "secrets" is no member of the manager.
func watchingSecrets(t *testing.T, opts ...Option) (m *Manager, secrets informer.Runnable, calls *journal) {
	server := reflectortest.Start(t)
	require.NoError(t, server.Create(configMap("ns", "a")))
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	made := informer.New(clientset.CoreV1().Secrets(""), informer.WithName("secrets"))
	m = New(server.Config(), opts...)
	configMaps, err := Informer[*corev1.ConfigMap](m, Selection{})
	require.NoError(t, err)
	calls = &journal{}
	Reconcile(m, "painter", configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
		calls.addf("%s", key)
		return reconcile.Result{}, nil
	}, reconcile.Watch(made, func(*corev1.Secret) []store.Key { return nil }))
	return m, made, calls
}

// nest returns a manager of members.
func nest(members ...informer.Runnable) *Manager {
	m := New(nil)
	for _, one := range members {
		m.Add(one)
	}
	return m
}
