package reflector_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// opened returns a client of a resource over a transport.
func opened[T reflector.Object](t *testing.T, server http.RoundTripper, resource schema.GroupVersionResource, namespace string, opts ...client.ResourceOption) *client.Resource[T] {
	t.Helper()
	return openedAt[T](t, localhost(server), resource, namespace, opts...)
}

// openedAt returns a client of a resource.
func openedAt[T reflector.Object](t *testing.T, config *rest.Config, resource schema.GroupVersionResource, namespace string, opts ...client.ResourceOption) *client.Resource[T] {
	t.Helper()
	api, err := client.ForResource[T](config, resource, namespace, opts...)
	require.NoError(t, err)
	return api
}

// follower is a reflector that runs over a cache, with everything that it says.
type follower[T reflector.Object] struct {
	of    *reflector.KubernetesResourceReflector[T]
	cache *store.Cache[T]
	logs  *observer.ObservedLogs
	stop  func()

	mu   sync.Mutex // protects errs
	errs []error
}

// followed runs a reflector of a client until stop is called, or the test has ended.
func followed[T reflector.Object, L any](t *testing.T, api reflector.Client[T, L], opts ...reflector.Option) *follower[T] {
	t.Helper()
	return followedFrom(t, api, "", nil, opts...)
}

// followedFrom is followed over a cache that holds a list at a version, if that is not empty.
func followedFrom[T reflector.Object, L any](t *testing.T, api reflector.Client[T, L], version string, objects []T, opts ...reflector.Option) *follower[T] {
	t.Helper()
	cache := store.New(store.ObjectKey[T])
	if version != "" {
		require.NoError(t, cache.Replace(objects, version))
	}
	return followedInto(t, api, cache, opts...)
}

// followedInto is followed with a cache of the caller.
func followedInto[T reflector.Object, L any](t *testing.T, api reflector.Client[T, L], cache *store.Cache[T], opts ...reflector.Option) *follower[T] {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	m := &follower[T]{cache: cache, logs: logs}
	opts = append([]reflector.Option{reflector.WithLogger(zap.New(core)), reflector.WithErrorHandler(m.failed)}, opts...)
	m.of = reflector.New(api, m.cache, opts...)
	ended := launched(t, m.of)
	m.stop = sync.OnceFunc(func() { require.NoError(t, ended()) })
	t.Cleanup(m.stop)
	return m
}

func (m *follower[T]) failed(_ context.Context, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errs = append(m.errs, err)
}

// errors returns what the error handler got.
func (m *follower[T]) errors() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.errs)
}

// told returns what the error handler got since the last call.
func (m *follower[T]) told() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := m.errs
	m.errs = nil
	return errs
}

// texts returns all lines of the log, with their fields, and the errors.
func (m *follower[T]) texts() (texts []string) {
	for _, line := range m.logs.All() {
		texts = append(texts, fmt.Sprint(line.Message, line.ContextMap()))
	}
	for _, err := range m.errors() {
		texts = append(texts, err.Error())
	}
	return texts
}

// names returns the names of the stored objects, in order.
func (m *follower[T]) names() []string {
	names := []string{}
	for key := range m.cache.All() {
		names = append(names, key.Name)
	}
	return names
}

// mirrored runs a reflector of the ConfigMaps of a server, with a generated client or with a
// Resource. It returns when the reflector waits.
func mirrored(t *testing.T, server *reflectortest.Server, generated bool, opts ...reflector.Option) (m *follower[*corev1.ConfigMap]) {
	t.Helper()
	return mirroredBy(t, server.Config(), generated, opts...)
}

// mirroredBy is mirrored by way of a config.
func mirroredBy(t *testing.T, config *rest.Config, generated bool, opts ...reflector.Option) (m *follower[*corev1.ConfigMap]) {
	t.Helper()
	if generated {
		clientset, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		m = followed(t, clientset.CoreV1().ConfigMaps("default"), opts...)
	} else {
		m = followed(t, openedAt[*corev1.ConfigMap](t, config, configMapResource, "default"), opts...)
	}
	synctest.Wait()
	return m
}

// requestsOf counts the requests of a verb.
func requestsOf(server *reflectortest.Server, verb string) int {
	n := 0
	for _, r := range server.Requests() {
		if r.Verb == verb {
			n++
		}
	}
	return n
}

// eachClient runs a test for a generated client and for a Resource.
func eachClient(t *testing.T, test func(t *testing.T, generated bool)) {
	for name, generated := range map[string]bool{"generated": true, "resource": false} {
		t.Run(name, func(t *testing.T) { test(t, generated) })
	}
}
