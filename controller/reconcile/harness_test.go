package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// harness is a reconciler of ConfigMaps that watches Secrets. A change of the API changes this file,
// and not the tests.
type harness struct {
	*world
	// reconcile is called with the name of each key; nil does nothing.
	reconcile func(ctx context.Context, name string) error
	// mapping maps a Secret to the names of ConfigMaps; nil is owners.
	mapping func(secret *corev1.Secret) []string
	options []Option

	calls      list // names of the keys, one for each call
	lines      *observer.ObservedLogs
	hooked     errorList
	reconciler *Reconciler[*corev1.ConfigMap]
}

// errorList is what error handlers were told.
type errorList struct {
	mu  sync.Mutex
	all []error
}

func (l *errorList) note(_ context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, err)
}

func (l *errorList) take() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// open returns a harness. Logger and error handler are those of the informers.
func open(t *testing.T) *harness {
	core, lines := observer.New(zapcore.WarnLevel)
	h := &harness{lines: lines}
	h.world = newWorld(t, informer.WithName("secrets"), informer.WithLogger(zap.New(core)), informer.WithErrorHandler(h.hooked.note))
	return h
}

// logTo has the reconciler log to the lines of the harness as a production logger does,
// with stack traces of errors.
func (h *harness) logTo() {
	core, lines := observer.New(zapcore.WarnLevel)
	h.lines = lines
	h.options = append(h.options, WithLogger(zap.New(core, zap.AddStacktrace(zapcore.ErrorLevel))))
}

// build makes the reconciler.
func (h *harness) build() *Reconciler[*corev1.ConfigMap] {
	watch := h.ofSecrets
	if h.mapping != nil {
		watch = Watch(h.secrets, func(s *corev1.Secret) (keys []store.Key) {
			for _, name := range h.mapping(s) {
				keys = append(keys, store.Key{Namespace: s.Namespace, Name: name})
			}
			return keys
		})
	}
	h.reconciler = New("test", h.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
		h.calls.add(key.Name)
		if h.reconcile == nil {
			return Result{}, nil
		}
		return Result{}, h.reconcile(ctx, key.Name)
	}, append([]Option{watch}, h.options...)...)
	return h.reconciler
}

// start runs the reconciler and its informers until stop is called, which returns what
// the reconciler's Run returned.
func (h *harness) start() (stop func() error) {
	if h.reconciler == nil {
		h.build()
	}
	return h.run(h.reconciler)
}

// startAlone runs the reconciler, and no informer.
func (h *harness) startAlone() (stop func() error) { return runMember(h.t, h.build()) }

// logged returns the fields of the one line with a message.
func (h *harness) logged(message string) (fields map[string]any, stack string) {
	h.t.Helper()
	lines := h.lines.FilterMessage(message).All()
	require.Len(h.t, lines, 1, "lines with %q among %v", message, h.lines.All())
	return lines[0].ContextMap(), lines[0].Stack
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server in memory with ConfigMaps, which are reconciled, and Secrets,
// which they own.
type world struct {
	t          *testing.T
	server     *reflectortest.Server
	client     kubernetes.Interface
	creator    *client.Resource[*corev1.Secret] // reports what it creates
	configMaps *informer.Informer[*corev1.ConfigMap]
	secrets    *informer.Informer[*corev1.Secret]
	ofSecrets  Option
}

func newWorld(t *testing.T, ofSecrets ...informer.Option) *world {
	w := &world{t: t, server: reflectortest.Start(t)}
	var err error
	w.client, err = kubernetes.NewForConfig(w.server.Config())
	require.NoError(t, err)
	w.creator, err = client.FromTypedClient(w.client.CoreV1().Secrets(""))
	require.NoError(t, err)
	w.configMaps = informer.New(w.client.CoreV1().ConfigMaps(""))
	w.secrets = informer.New(w.client.CoreV1().Secrets(""), ofSecrets...)
	w.ofSecrets = Owns(w.secrets, schema.GroupKind{Kind: "ConfigMap"})
	return w
}

// run runs the informers and a member until the returned function is called, which
// returns what the member returned.
func (w *world) run(member interface{ Run(context.Context) error }) (stop func() error) {
	informing, endInforming := context.WithCancel(w.t.Context())
	informed := make(chan error, 2)
	go func() { informed <- w.configMaps.Run(informing) }()
	go func() { informed <- w.secrets.Run(informing) }()
	end := runMember(w.t, member)
	return func() error {
		err := end()
		endInforming()
		require.NoError(w.t, errors.Join(<-informed, <-informed))
		return err
	}
}

func runMember(t *testing.T, member interface{ Run(context.Context) error }) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- member.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// secret returns a Secret that belongs to a ConfigMap.
func secret(name, owner string) *corev1.Secret {
	yes := true
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: "u1", Controller: &yes},
	}}}
}

func (w *world) create(objects ...metav1.Object) {
	w.t.Helper()
	for _, object := range objects {
		require.NoError(w.t, w.server.Create(object))
	}
}

func (w *world) update(object metav1.Object) {
	w.t.Helper()
	require.NoError(w.t, w.server.Update(object))
}

// touch changes something about a ConfigMap.
func (w *world) touch(name, value string) {
	w.t.Helper()
	c := configMap(name)
	require.NoError(w.t, w.server.Get(c))
	c.Data = map[string]string{"touched": value}
	w.update(c)
}

// list is a list of strings that several goroutines may use.
type list struct {
	mu  sync.Mutex
	all []string // Guarded by mu
}

func (l *list) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

// take returns what was added since it was called last.
func (l *list) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// peek returns what take would.
func (l *list) peek() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}

// noting returns a Func that notes the names of the keys.
func (l *list) noting() Func[*corev1.ConfigMap] {
	return func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
		l.add(key.Name)
		return Result{}, nil
	}
}

// withObject returns a Func that ignores the object.
func withObject(fn function) Func[*corev1.ConfigMap] {
	return func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) { return fn(ctx, key) }
}

// working has a run make calls until stop is called, which returns what is left.
func working(t *testing.T, r *run) (stop func() error) {
	end := runMember(t, runFunc(func(ctx context.Context) error { return r.work(ctx, func() {}) }))
	return func() error { defer r.close(); return end() }
}

type runFunc func(context.Context) error

func (f runFunc) Run(ctx context.Context) error { return f(ctx) }
