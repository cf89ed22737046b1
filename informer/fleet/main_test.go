package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Forms of objects.
type (
	object  = unstructured.Unstructured
	partial = metav1.PartialObjectMetadata
)

const widgets = "widgets.example.com"

// Wanted kinds. The server prefers v1 to v1beta1.
var (
	widget      = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	betaWidget  = schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Widget"}
	someWidget  = schema.GroupVersionKind{Group: "example.com", Kind: "Widget"}
	podKind     = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	crdKind     = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	serviceKind = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
)

// world is a server and a fleet that runs until the test ends, with its log.
type world struct {
	*testing.T
	server *reflectortest.Server
	fleet  *Fleet
	logs   *observer.ObservedLogs
}

func newWorld(t *testing.T, opts ...reflectortest.Option) *world {
	t.Helper()
	return newWorldOf(t, reflectortest.Start(t, append([]reflectortest.Option{reflectortest.WithCustomResourceDefinitions()}, opts...)...))
}

// newWorldOf is newWorld of a server, which may have faults before the fleet sends its first request. The
// requests go through wraps.
func newWorldOf(t *testing.T, server *reflectortest.Server, wraps ...transport.WrapperFunc) *world {
	t.Helper()
	config := server.Config()
	for _, wrap := range wraps {
		config.Wrap(wrap)
	}
	core, logs := observer.New(zap.InfoLevel)
	return &world{T: t, server: server, logs: logs, fleet: begin(t, config, WithLogger(zap.New(core)))}
}

// begin runs a fleet until the test ends.
func begin(t *testing.T, config *rest.Config, opts ...Option) *Fleet {
	t.Helper()
	f, err := New(config, opts...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return f
}

// define creates the definition of Widget with served versions; the first one is stored.
func (w *world) define(scope string, served ...string) {
	w.Helper()
	require.NoError(w, w.server.Create(definitionOf("Widget", scope, served...)))
}

func definitionOf(kind, scope string, served ...string) *object {
	versions := []any{}
	for n, name := range served {
		versions = append(versions, map[string]any{
			"name": name, "served": true, "storage": n == 0,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	plural := lower(kind) + "s"
	return &object{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": scope, "versions": versions,
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": lower(kind)},
		},
	}}
}

func lower(kind string) string { return string(kind[0]|0x20) + kind[1:] }

// bare returns an object of a kind with its names.
func bare(kind schema.GroupVersionKind, namespace, name string) *object {
	o := &object{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// stored returns what the server has of an object without a namespace.
func (w *world) stored(kind schema.GroupVersionKind, name string) *object {
	w.Helper()
	o := bare(kind, "", name)
	require.NoError(w, w.server.Get(o))
	return o
}

// undefine deletes the definition of Widget.
func (w *world) undefine() {
	w.Helper()
	require.NoError(w, w.server.Delete(bare(crdKind, "", widgets)))
}

// serve changes which versions of Widget are served.
func (w *world) serve(version string, served bool) {
	w.Helper()
	crd := w.stored(crdKind, widgets)
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NoError(w, err)
	for _, one := range versions {
		if v := one.(map[string]any); v["name"] == version {
			v["served"] = served
		}
	}
	require.NoError(w, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	require.NoError(w, w.server.Update(crd))
}

// create creates a Widget in the namespace a.
func (w *world) create(name string) {
	w.Helper()
	require.NoError(w, w.server.Create(bare(widget, "a", name)))
}

// requests returns how many requests there were for a resource.
func (w *world) requests(plural string) int {
	return len(w.server.Requests(reflectortest.ForResource(plural)))
}

// want is Want of an owner that lasts as long as the test.
func (w *world) want(kind schema.GroupVersionKind) (*Owner, *Wanted[*object]) {
	w.Helper()
	owner := w.fleet.NewOwner(w.Context(), "test")
	wanted, err := Want[*object](owner, kind, Selection{})
	require.NoError(w, err)
	return owner, wanted
}

// follow is want with a handler, once both have their objects or have waited for them.
func (w *world) follow(kind schema.GroupVersionKind) (*Owner, *Wanted[*object], *record) {
	w.Helper()
	owner, wanted := w.want(kind)
	seen := &record{}
	wanted.Handle(seen)
	<-time.After(settle)
	return owner, wanted, seen
}

// cached returns the names of the objects in a cache.
func cached(wanted *Wanted[*object]) []string {
	var all []string
	for key := range wanted.Cache().All() {
		all = append(all, key.Name)
	}
	return all
}

// record is a handler that notes events, as in +web, ~web and -web.
type record struct {
	mu    sync.Mutex
	notes []string
}

func (r *record) Handle(_ context.Context, event eventqueue.Event[*object]) error {
	sign := map[eventqueue.Type]string{eventqueue.Addition: "+", eventqueue.Modification: "~", eventqueue.Deletion: "-"}[event.Type]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, sign+event.Object.GetName())
	return nil
}

// takeAll returns the notes since the last one.
func (r *record) takeAll() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

// take is takeAll as a text.
func (r *record) take() string { return fmt.Sprint(r.takeAll()) }

// only returns the notes of one object.
func only(notes []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(notes), func(note string) bool { return note[1:] != name })
}

var _ informer.Handler[*object] = (*record)(nil)

// lines returns the messages of the fleet's log since the last call.
func (w *world) lines() []string {
	var all []string
	for _, entry := range w.logs.TakeAll() {
		if slices.Contains([]string{"kind is served", "kind is not served"}, entry.Message) {
			all = append(all, fmt.Sprintf("%s %v", entry.Message, entry.ContextMap()["reason"]))
		} else if entry.Level > zap.InfoLevel {
			all = append(all, entry.Message)
		}
	}
	return all
}

const settle = 10 * time.Second // longer than a back-off that follows a change
