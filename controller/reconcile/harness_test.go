package reconcile

import (
	"context"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// harness is what regression tests see of a reconciler of ConfigMaps that watches Secrets. A
// change of the API changes this file, and not the tests.
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

// write creates a Secret and tells the reconciler, as a reconcile function does.
func (h *harness) write(ctx context.Context, name, owner string) error {
	s, err := h.client.CoreV1().Secrets("ns").Create(ctx, secret(name, owner), metav1.CreateOptions{})
	if err == nil {
		ExpectWrite(ctx, s)
	}
	return err
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
