package informer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gardens     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gardens"}
)

func gardenDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "gardens.example.com"},
		"spec": map[string]any{
			"group": "example.com",
			"scope": "Namespaced",
			"names": map[string]any{"plural": "gardens", "singular": "garden", "kind": "Garden", "listKind": "GardenList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

func garden(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Garden", "metadata": map[string]any{"name": name},
	}}
}

// heard is what a handler was told.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) Handle(_ context.Context, e eventqueue.Event[*unstructured.Unstructured]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, e.Type.String()+" "+e.Key.Name)
	return nil
}

func (h *heard) read() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines...)
}

func TestInformerOfADefinitionThatComesAndGoes(t *testing.T) {
	server := shared.Server(t)
	config := server.Config()
	closeLater(t, config)
	resource, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	objects := resource.Resource(gardens).Namespace(server.Namespace(t))
	install := func() {
		_, err := resource.Resource(definitions).Create(t.Context(), gardenDefinition(), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	plant := func(name string) {
		eventually(t, "a "+name, func() bool {
			_, err := objects.Create(t.Context(), garden(name), metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err)
		})
	}

	i := informer.New(client.Dynamic(objects), informer.WithName("gardens"))
	var h heard
	i.Handle(&h)
	run(t, i)
	notServed := func() bool {
		state := i.State()
		return state.Phase == reflector.BackingOff && errors.Is(state.Err, reflector.ErrNotServed)
	}
	eventually(t, "the informer to wait", notServed)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	eventually(t, "it to say so", func() bool { // it does not while it tries again
		err = i.WaitForSync(over)
		return strings.Contains(err.Error(), "informer gardens is not synced; reflector is BackingOff after attempt")
	})
	require.ErrorIs(t, err, reflector.ErrNotServed)
	require.ErrorIs(t, i.Ready(), reflector.ErrNotServed)

	install()
	require.NoError(t, i.WaitForSync(within(t, patience)))
	require.NoError(t, i.Ready())
	plant("rose")
	plant("lily")
	eventually(t, "both", func() bool { return i.Cache().Len() == 2 })

	require.NoError(t, resource.Resource(definitions).Delete(t.Context(), "gardens.example.com", metav1.DeleteOptions{}))
	eventually(t, "the informer to wait again", notServed)
	eventually(t, "the definition's end", func() bool {
		_, err := resource.Resource(definitions).Get(t.Context(), "gardens.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})

	install()
	plant("lily")
	plant("oak")
	eventually(t, "lily and oak", func() bool { // a server ends the watches of what was defined just now
		state := i.State()
		return state.Phase == reflector.Watching && state.Err == nil && i.Cache().Len() == 2
	})
	eventually(t, "all to be told", func() bool { return len(h.read()) == 6 })
	lines := h.read()
	assert.ElementsMatch(t, []string{"Addition rose", "Addition lily"}, lines[:2])
	assert.ElementsMatch(t, []string{"Deletion rose", "Deletion lily", "Addition lily", "Addition oak"}, lines[2:])
}

var shared apiserver.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

// patience is how long anything may take before a test fails. A back-off alone can be half a minute, and the machine may be slow.
const patience = 3 * time.Minute

// run lets something run until the test ends, or until the returned function is called.
func run(t *testing.T, i interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) { return so(), nil })
	require.NoError(t, err, "waited for: %s", what)
}

// closeLater ends a client's connections with the test.
func closeLater(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
}
