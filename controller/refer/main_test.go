package refer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = unstructured.Unstructured

// kindOf returns a kind of the tests, such as Widget, without a version.
func kindOf(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Kind: name}
}

const settle = 10 * time.Second // longer than a back-off that follows a change

// world is a server, a fleet, and a reconciler of bundles. A bundle is a ConfigMap in the namespace
// bundles whose data are references: "Widget/web" to an object in the namespace a, and "Widget?x=y" to a
// selection there, or in all namespaces as "Widget??x=y".
type world struct {
	*testing.T
	server     *reflectortest.Server
	kinds      *fleet.Fleet
	bundles    *informer.Informer[*corev1.ConfigMap]
	reconciler *Reconciler[*corev1.ConfigMap]
	stop       func() // ends Run and waits for it
	stopKinds  func() // ends that of the fleet

	mu    sync.Mutex
	calls []string          // the name of each call's key and what it saw; guarded by mu
	saw   map[string]string // by the name of a bundle and a reference: what its last call saw; guarded by mu
	// fails decides whether a call fails after so many references; nil for never. Guarded by mu.
	fails func(bundle string, refs int) bool
}

// newWorld returns a world without a running reconciler, where the fleet and the informer of bundles run
// until the test ends.
func newWorld(t *testing.T, opts ...fleet.Option) *world {
	t.Helper()
	w := &world{T: t, server: reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions()), saw: map[string]string{}}
	var err error
	w.kinds, err = fleet.New(w.server.Config(), opts...)
	require.NoError(t, err)
	clientset, err := kubernetes.NewForConfig(w.server.Config())
	require.NoError(t, err)
	w.bundles = informer.New(clientset.CoreV1().ConfigMaps("bundles"))
	w.reconciler = New("bundles", w.bundles, w.kinds, w.reconcile, reconcile.WithWorkers(4))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	kinds, stopKinds := context.WithCancel(ctx)
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		assert.NoError(t, w.kinds.Run(kinds))
	})
	w.stopKinds = func() { stopKinds(); <-ended }
	running.Go(func() { assert.NoError(t, w.bundles.Run(ctx)) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

// begin runs the reconciler until the test ends, or until stop.
func (w *world) begin() *world {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.reconciler.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended // a DrainError names keys that failed
	})
	w.Cleanup(func() { w.stop() })
	wait()
	return w
}

func wait() { <-time.After(settle) }

var errOnPurpose = errors.New("on purpose")

func (w *world) reconcile(ctx context.Context, key store.Key, bundle *corev1.ConfigMap) (reconcile.Result, error) {
	w.mu.Lock()
	fails := w.fails
	w.mu.Unlock()
	if bundle == nil {
		w.note(key.Name, nil, "gone")
		if fails != nil && fails(key.Name, 0) {
			return reconcile.Result{}, errOnPurpose
		}
		return reconcile.Result{}, nil
	}
	saw := map[string]string{}
	var all []string
	for _, ref := range sortedValues(bundle.Data) {
		if fails != nil && fails(key.Name, len(all)) {
			return reconcile.Result{}, errOnPurpose
		}
		saw[ref] = look(ctx, ref)
		all = append(all, saw[ref])
	}
	if fails != nil && fails(key.Name, len(all)) {
		return reconcile.Result{}, errOnPurpose
	}
	w.note(key.Name, saw, strings.Join(all, " "))
	return reconcile.Result{}, nil
}

func sortedValues(data map[string]string) []string {
	var all []string
	for _, value := range data {
		all = append(all, value)
	}
	slices.Sort(all)
	return all
}

// split takes a reference apart. selector is nil if it has a name.
func split(ref string) (kind, namespace, name string, selector labels.Selector) {
	if kind, name, ok := strings.Cut(ref, "/"); ok {
		return kind, "a", name, nil
	}
	kind, text, _ := strings.Cut(ref, "?")
	text, everywhere := strings.CutPrefix(text, "?")
	if !everywhere {
		namespace = "a"
	}
	selector, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return kind, namespace, "", selector
}

// look reads a reference, and says what is there: a version of each object, none, or a problem.
func look(ctx context.Context, ref string) string {
	kind, namespace, name, selector := split(ref)
	if selector != nil {
		found, err := List[*object](ctx, kindOf(kind), namespace, selector)
		return describe(found, err)
	}
	found, ok, err := Get[*object](ctx, kindOf(kind), store.Key{Namespace: namespace, Name: name})
	if !ok {
		return describe(nil, err)
	}
	return describe([]*object{found}, err)
}

func describe(found []*object, err error) string {
	if e, ok := errors.AsType[*fleet.NotServedError](err); ok {
		return "!" + string(e.Reason)
	}
	if err != nil {
		return "!" + conditionOf(err)
	}
	var all []string
	for _, one := range found {
		all = append(all, one.GetNamespace()+"/"+one.GetName()+":"+one.GetLabels()["v"])
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

func (w *world) note(bundle string, saw map[string]string, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.saw {
		if strings.HasPrefix(key, bundle+" ") {
			delete(w.saw, key)
		}
	}
	for ref, what := range saw {
		w.saw[bundle+" "+ref] = what
	}
	w.calls = append(w.calls, bundle+": "+line)
}

// take returns the calls since the last one, without repetitions of the same text, after a while.
func (w *world) take() []string {
	wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := slices.Compact(w.calls)
	w.calls = nil
	return calls
}

// last returns the last call since the last one.
func (w *world) last() string {
	w.Helper()
	calls := w.take()
	require.NotEmpty(w, calls)
	return calls[len(calls)-1]
}

// failIf sets which calls fail.
func (w *world) failIf(fails func(bundle string, refs int) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = fails
}

func bundle(name string, refs ...string) *corev1.ConfigMap {
	data := map[string]string{}
	for n, ref := range refs {
		data[fmt.Sprint(n)] = ref
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bundles", Name: name}, Data: data}
}

// bundle creates or replaces a bundle.
func (w *world) bundle(name string, refs ...string) {
	w.Helper()
	if w.server.Create(bundle(name, refs...)) != nil {
		require.NoError(w, w.server.Update(bundle(name, refs...)))
	}
}

func (w *world) unbundle(name string) {
	w.Helper()
	require.NoError(w, w.server.Delete(bundle(name)))
}

// widget returns an object of a kind; v is the value of its label.
func widget(kind, namespace, name, v string) *object {
	o := &object{}
	o.SetGroupVersionKind(kindOf(kind).GroupKind().WithVersion("v1"))
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{"v": v})
	return o
}

// put creates or replaces an object in the namespace a.
func (w *world) put(kind, name, v string) {
	w.Helper()
	if w.server.Create(widget(kind, "a", name, v)) != nil {
		require.NoError(w, w.server.Update(widget(kind, "a", name, v)))
	}
}

func (w *world) remove(kind, name string) {
	w.Helper()
	require.NoError(w, w.server.Delete(widget(kind, "a", name, "")))
}

// definition returns the definition of a kind, which may be served.
func definition(kind string, served bool) *object {
	lower := strings.ToLower(kind)
	version := func(name string, served, storage bool) any {
		return map[string]any{"name": name, "served": served, "storage": storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
	}
	return &object{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": lower + "s.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "versions": []any{version("v1", served, true)},
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": lower + "s", "singular": lower},
		},
	}}
}

func (w *world) define(kind string) {
	w.Helper()
	require.NoError(w, w.server.Create(definition(kind, true)))
}

func (w *world) undefine(kind string) {
	w.Helper()
	require.NoError(w, w.server.Delete(definition(kind, true)))
}

// serve changes whether the version of a defined kind is served.
func (w *world) serve(kind string, served bool) {
	w.Helper()
	stored := definition(kind, true)
	require.NoError(w, w.server.Get(stored))
	stored.Object["spec"] = definition(kind, served).Object["spec"]
	require.NoError(w, w.server.Update(stored))
}

// isWanted reports whether the fleet has the informer of a kind.
func (w *world) isWanted(kind string) bool {
	_, _, err := fleet.Get[*object](w.kinds, kindOf(kind), store.Key{Namespace: "a", Name: "x"})
	return !errors.Is(err, fleet.ErrNotWanted)
}

// index returns what the reconciler keeps: each key and reference, and each watch.
func (w *world) index() (pairs, watches []string) {
	s := w.reconciler.current.Load()
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for form, one := range s.watches {
		watches = append(watches, form.kind.Kind)
		count := 0
		for ref, by := range one.named {
			for key := range by {
				pairs = append(pairs, fmt.Sprintf("%s %s/%s", key.Name, form.kind.Kind, ref.Name))
			}
			count += len(by)
			assert.NotEmpty(w, by)
		}
		for namespace, in := range one.selected {
			assert.NotEmpty(w, in)
			for text, selection := range in {
				mark := "?"
				if namespace == "" {
					mark = "??"
				}
				for key := range selection.by {
					pairs = append(pairs, fmt.Sprintf("%s %s%s%s", key.Name, form.kind.Kind, mark, text))
				}
				count += len(selection.by)
				assert.NotEmpty(w, selection.by)
			}
		}
		assert.Equal(w, one.count, count)
	}
	var refers int
	for _, p := range s.primaries {
		refers += len(p.refers)
	}
	assert.Len(w, pairs, refers)
	slices.Sort(pairs)
	slices.Sort(watches)
	return pairs, watches
}

// primaries returns how many keys the reconciler knows.
func (w *world) primaries() int {
	s := w.reconciler.current.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.primaries)
}
