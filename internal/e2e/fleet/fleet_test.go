package fleet

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var (
	kinds    = flag.Int("fleet.kinds", 10, "number of kinds")
	duration = flag.Duration("fleet.duration", 20*time.Second, "how long definitions and owners come and go")
	seed     = flag.Uint64("fleet.seed", 1, "seed of the random course")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	group     = "fleet.example.com"
	namespace = "default"
	// patience is for what takes seconds, on a busy machine.
	patience = 4 * time.Minute
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// world is a server, and a fleet that runs until the test ends.
type world struct {
	*testing.T
	client dynamic.Interface
	fleet  *fleet.Fleet
	random *rand.Rand
	owners []*owner
}

// owner wants one kind, and knows what its events say.
type owner struct {
	*fleet.Owner
	kind   int
	wanted *fleet.Wanted[*unstructured.Unstructured]

	mu   sync.Mutex
	uids map[string]string // by name; guarded by mu
	bad  []string          // events that contradict the ones before; guarded by mu
}

func (o *owner) Handle(_ context.Context, event eventqueue.Event[*unstructured.Unstructured]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	name, uid := event.Key.Name, string(event.Object.GetUID())
	before, known := o.uids[name]
	// A deletion may be the only event of an object of the first list: see informer-I4.
	contradicts := event.Type == eventqueue.Addition && known || event.Type == eventqueue.Modification && !known
	if contradicts || known && before != uid {
		o.bad = append(o.bad, fmt.Sprintf("%s of %s %s after %q", event.Type, name, uid, before))
	}
	o.uids[name] = uid
	if event.Type == eventqueue.Deletion {
		delete(o.uids, name)
	}
	return nil
}

func plural(n int) string { return fmt.Sprintf("kind%ds", n) }

func kindOf(n int) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Kind: fmt.Sprintf("Kind%d", n)}
}

func definition(n int) *unstructured.Unstructured {
	kind := kindOf(n).Kind
	versions := []any{}
	for _, name := range []string{"v1", "v1beta1"} {
		versions = append(versions, map[string]any{
			"name": name, "served": true, "storage": name == "v1",
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural(n) + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "versions": versions,
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural(n), "singular": fmt.Sprintf("kind%d", n)},
		},
	}}
}

func (w *world) objects(n int) dynamic.ResourceInterface {
	return w.client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural(n)}).Namespace(namespace)
}

// step changes something. It may fail: a definition may not exist, or end, and the server may be away.
func (w *world) step(ctx context.Context) {
	n := w.random.IntN(*kinds)
	name := fmt.Sprintf("object-%d", w.random.IntN(4))
	switch w.random.IntN(10) {
	case 0, 1:
		_, _ = w.client.Resource(crds).Create(ctx, definition(n), metav1.CreateOptions{})
	case 2:
		_ = w.client.Resource(crds).Delete(ctx, plural(n)+"."+group, metav1.DeleteOptions{})
	case 3:
		served := w.random.IntN(2) == 0
		if crd, err := w.client.Resource(crds).Get(ctx, plural(n)+"."+group, metav1.GetOptions{}); err == nil {
			versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
			versions[1].(map[string]any)["served"] = served
			_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
			_, _ = w.client.Resource(crds).Update(ctx, crd, metav1.UpdateOptions{})
		}
	case 4, 5, 6:
		object := &unstructured.Unstructured{}
		kind := kindOf(n)
		kind.Version = "v1"
		object.SetGroupVersionKind(kind)
		object.SetName(name)
		_, _ = w.objects(n).Create(ctx, object, metav1.CreateOptions{})
	case 7:
		_ = w.objects(n).Delete(ctx, name, metav1.DeleteOptions{})
	case 8:
		kind := kindOf(n)
		kind.Version = []string{"", "v1", "v1beta1"}[w.random.IntN(3)]
		o := &owner{Owner: w.fleet.NewOwner(w.Context(), "test"), kind: n, uids: map[string]string{}}
		var err error
		o.wanted, err = fleet.Want[*unstructured.Unstructured](o.Owner, kind, fleet.Selection{Namespace: namespace})
		require.NoError(w, err)
		o.wanted.Handle(o)
		w.owners = append(w.owners, o)
	case 9:
		if len(w.owners) > 2**kinds {
			at := w.random.IntN(len(w.owners))
			w.owners[at].Leave()
			w.owners = slices.Delete(w.owners, at, at+1)
		}
	}
}

// served returns the UIDs of the objects of a kind, and false if the version is not served.
func (w *world) served(o *owner) (uids map[string]string, served, defined bool) {
	crd, err := w.client.Resource(crds).Get(w.Context(), plural(o.kind)+"."+group, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return map[string]string{}, false, false
	}
	require.NoError(w, err)
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if o.wanted.Name() == fmt.Sprintf("Kind%d.v1beta1.%s, namespace %s", o.kind, group, namespace) && versions[1].(map[string]any)["served"] != true {
		return nil, false, true
	}
	list, err := w.objects(o.kind).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, true, true // not established yet: asked again
	}
	uids = map[string]string{}
	for _, object := range list.Items {
		uids[object.GetName()] = string(object.GetUID())
	}
	return uids, true, true
}

// difference says how an owner differs from the server, or nothing.
func (w *world) difference(o *owner) string {
	want, served, defined := w.served(o)
	if !served && defined {
		if o.wanted.Ready() == nil {
			return o.wanted.Name() + " is ready, but not served"
		}
		return ""
	}
	have := map[string]string{}
	for key, object := range o.wanted.Cache().All() {
		have[key.Name] = string(object.GetUID())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case served != (o.wanted.Ready() == nil):
		return fmt.Sprintf("%s: served is %v, ready is %v", o.wanted.Name(), served, o.wanted.Ready())
	case want == nil || !maps.Equal(want, have):
		return fmt.Sprintf("%s: the server has %v, the cache %v", o.wanted.Name(), want, have)
	case !maps.Equal(want, o.uids):
		return fmt.Sprintf("%s: the server has %v, the subscriber %v", o.wanted.Name(), want, o.uids)
	}
	return ""
}

func TestDefinitionsThatComeAndGo(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{})
	client, err := dynamic.NewForConfig(server.Config())
	require.NoError(t, err)
	f, err := fleet.New(server.Config())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	defer func() {
		cancel()
		assert.NoError(t, <-ended)
	}()
	w := &world{T: t, client: client, fleet: f, random: rand.New(rand.NewPCG(*seed, 1))}
	begin, steps, killed := time.Now(), 0, false
	for time.Since(begin) < *duration {
		if !killed && time.Since(begin) > *duration/2 {
			killed = true
			require.NoError(t, server.KillAPIServer())
			require.NoError(t, server.StartAPIServer())
		}
		within, stop := context.WithTimeout(ctx, 5*time.Second)
		w.step(within)
		stop()
		steps++
	}
	t.Logf("%d steps, %d owners", steps, len(w.owners))
	for _, o := range w.owners {
		var difference string
		if !assert.Eventually(t, func() bool { difference = w.difference(o); return difference == "" }, patience, 200*time.Millisecond) {
			t.Error(difference)
		}
		o.mu.Lock()
		assert.Empty(t, o.bad, o.wanted.Name())
		o.mu.Unlock()
		o.Leave()
	}
}
