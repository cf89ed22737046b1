package wire

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
)

// objects is what a resource holds, in a form that can be compared.
type objects map[store.Key]any

// mirror is a store and the reflector that keeps it equal to the server.
type mirror interface {
	// start lets the reflector run until stop is called.
	start(w *world)
	stop()
	// await waits until the store is as new as a version.
	await(w *world, version string)
	// requireEqual requires that the store holds what client-go read.
	requireEqual(w *world, want objects)
	// remember notes which objects there are, for unchanged.
	remember()
	// unchanged counts the objects that are the same pointers as those remembered.
	unchanged() int
	seen() *traffic
}

type comparableObject interface {
	comparable
	reflector.Object
}

type mirrorOf[T comparableObject] struct {
	cache     *store.Cache[T]
	form      func(T) any // that client-go's objects are compared in
	reflector *reflector.KubernetesResourceReflector[T]
	traffic   *traffic
	known     map[store.Key]T

	mu   sync.Mutex // protects errs
	errs []error
	end  func()
}

// newMirror makes a mirror of a resource as it is decoded from the wire.
func newMirror[T comparableObject](w *world, p *population, form func(T) any, decoding []client.ResourceOption, opts []reflector.Option) mirror {
	w.Helper()
	m := &mirrorOf[T]{cache: store.New(store.ObjectKey[T]), form: form, traffic: &traffic{}}
	config := rest.CopyConfig(w.server.Config())
	config.Wrap(m.traffic.wrap)
	api, err := client.ForResource[T](config, p.resource, w.namespace, decoding...)
	require.NoError(w, err)
	note := reflector.WithErrorHandler(func(_ context.Context, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.errs = append(m.errs, err)
	})
	m.reflector = reflector.New(api, m.cache, append([]reflector.Option{note}, opts...)...)
	return m
}

func (m *mirrorOf[T]) start(w *world) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.reflector.Run(ctx) }()
	m.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}

func (m *mirrorOf[T]) stop() { m.end() }

func (m *mirrorOf[T]) await(w *world, version string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	err := await.Version(ctx, m.cache, version)
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NoError(w, err, "the reflector: %+v; its errors: %v", m.reflector.State(), m.errs)
}

func (m *mirrorOf[T]) requireEqual(w *world, want objects) {
	w.Helper()
	got := maps.Collect(m.cache.All())
	require.Equal(w, len(want), len(got), "number of objects") // require.Len prints all of them
	for key, object := range want {
		held, ok := got[key]
		require.True(w, ok, "%s is missing", key)
		if formed := m.form(held); !reflect.DeepEqual(object, formed) { // require.Equal takes seconds for thousands
			require.Equal(w, object, formed, key)
			require.Fail(w, "objects differ in what is not shown", key)
		}
	}
}

func (m *mirrorOf[T]) remember() { m.known = maps.Collect(m.cache.All()) }

func (m *mirrorOf[T]) unchanged() (n int) {
	for key, object := range m.cache.All() {
		if m.known[key] == object {
			n++
		}
	}
	return n
}

func (m *mirrorOf[T]) seen() *traffic { return m.traffic }

// took logs how long a part of the scenario took.
func took(w *world, what string, begin time.Time) {
	w.Logf("%s: %v", what, time.Since(begin).Round(time.Millisecond))
}
