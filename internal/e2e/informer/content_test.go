package informer

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/informer/clientgo/factory"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/kubereflector/kubereflector/store/persist"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Gauge is stored as v1, and read as v2 by way of a webhook.
type Gauge struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Unit  string `json:"unit"`  // may have a default
		Scale string `json:"scale"` // v2 only: what the webhook answers
	} `json:"spec"`
}

func (g *Gauge) reads() string { return g.Spec.Unit + "/" + g.Spec.Scale }

// reads is what a cache is compared by.
func reads(u *unstructured.Unstructured) string {
	unit, _, _ := unstructured.NestedString(u.Object, "spec", "unit")
	scale, _, _ := unstructured.NestedString(u.Object, "spec", "scale")
	return unit + "/" + scale
}

var gauges = schema.GroupVersionResource{Group: "gauges.example.com", Version: "v2", Resource: "gauges"}

// gaugeWorld is a namespace with Gauges, and what those who cache them are told.
type gaugeWorld struct {
	*testing.T
	config    *rest.Config
	namespace string
	dynamic   dynamic.Interface
	converter string // its URL

	// mu protects the fields below it.
	mu       sync.Mutex
	modified map[string][]string // names of modified objects, by the names of caches
}

func newGaugeWorld(t *testing.T) *gaugeWorld {
	server := shared.Server(t)
	w := &gaugeWorld{T: t, config: server.Config(), namespace: server.Namespace(t), modified: map[string][]string{}}
	closeLater(t, w.config)
	var err error
	w.dynamic, err = dynamic.NewForConfig(w.config)
	require.NoError(t, err)
	w.install()
	v1 := w.dynamic.Resource(gauges.GroupResource().WithVersion("v1")).Namespace(w.namespace)
	for name, unit := range map[string]string{"a": "", "b": "", "given": "inch"} {
		spec := map[string]any{}
		if unit != "" {
			spec["unit"] = unit
		}
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "gauges.example.com/v1", "kind": "Gauge", "spec": spec,
			"metadata": map[string]any{"name": name, "labels": map[string]any{"owned": fmt.Sprint(name == "a")}},
		}}
		eventually(t, "a Gauge to be created", func() bool { // a definition takes its time
			_, err = v1.Create(t.Context(), object, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err)
		})
	}
	eventually(t, "Gauges to be listed", func() bool { return w.shown("a") == "/one" })
	return w
}

// install defines Gauges, which end with the test.
func (w *gaugeWorld) install() {
	converter := httptest.NewUnstartedServer(http.HandlerFunc(convertGauges))
	converter.Config.ErrorLog = log.New(io.Discard, "", 0)
	converter.StartTLS()
	w.Cleanup(converter.Close)
	w.converter = converter.URL
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: converter.Certificate().Raw})
	version := func(name string, stored bool) map[string]any {
		text := func() map[string]any { return map[string]any{"type": "string"} }
		return map[string]any{"name": name, "served": true, "storage": stored, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": map[string]any{
				"type": "object", "properties": map[string]any{"unit": text(), "scale": text()},
			}},
		}}}
	}
	definition := &Definition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: gauges.GroupResource().String()},
		Spec: map[string]any{
			"group": gauges.Group, "scope": "Namespaced",
			"names":    map[string]any{"plural": "gauges", "singular": "gauge", "kind": "Gauge", "listKind": "GaugeList"},
			"versions": []any{version("v1", true), version("v2", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []string{"v1"},
				"clientConfig":             map[string]any{"url": converter.URL + "/one", "caBundle": authority},
			}},
		},
	}
	all, err := client.ForResource[*Definition](w.config, definitions, "")
	require.NoError(w, err)
	_, err = all.Create(w.Context(), definition, metav1.CreateOptions{})
	require.NoError(w, err)
	w.Cleanup(func() {
		assert.NoError(w, all.Delete(context.Background(), definition.Name, metav1.DeleteOptions{}))
		assert.NoError(w, wait.PollUntilContextTimeout(context.Background(), 0, patience, true, func(ctx context.Context) (bool, error) {
			_, err := all.Get(ctx, definition.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		}), "the definition ends before its webhook")
	})
}

// Definition is a CustomResourceDefinition.
type Definition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec"`
}

// convertGauges answers with the last part of the path as the scale of each Gauge in v2.
func convertGauges(w http.ResponseWriter, r *http.Request) {
	var review struct {
		metav1.TypeMeta `json:",inline"`
		Request         *struct {
			UID     types.UID                   `json:"uid"`
			Version string                      `json:"desiredAPIVersion"`
			Objects []unstructured.Unstructured `json:"objects"`
		} `json:"request,omitempty"`
		Response struct {
			UID     types.UID                   `json:"uid"`
			Objects []unstructured.Unstructured `json:"convertedObjects"`
			Result  metav1.Status               `json:"result"`
		} `json:"response"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil || review.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	for _, object := range review.Request.Objects {
		object.SetAPIVersion(review.Request.Version)
		unstructured.RemoveNestedField(object.Object, "spec", "scale")
		if review.Request.Version == gauges.GroupVersion().String() {
			_ = unstructured.SetNestedField(object.Object, strings.TrimPrefix(r.URL.Path, "/"), "spec", "scale") // each has a spec
		}
		review.Response.Objects = append(review.Response.Objects, object)
	}
	review.Response.UID, review.Response.Result.Status = review.Request.UID, metav1.StatusSuccess
	review.Request = nil
	answer, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the server asks again
}

// change patches the definition.
func (w *gaugeWorld) change(patch string) {
	w.Helper()
	_, err := w.dynamic.Resource(definitions).Patch(w.Context(), gauges.GroupResource().String(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w, err)
}

// listed returns what a fresh list says of each object.
func (w *gaugeWorld) listed(of func(*unstructured.Unstructured) string) map[string]string {
	all := map[string]string{}
	list, err := w.dynamic.Resource(gauges).Namespace(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return nil // the storage of a definition is being replaced
	}
	for _, object := range list.Items {
		all[object.GetName()] = of(&object)
	}
	return all
}

func (w *gaugeWorld) shown(name string) string { return w.listed(reads)[name] }

func (w *gaugeWorld) note(name string, object string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.modified[name] = append(w.modified[name], object)
}

func (w *gaugeWorld) noted(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.modified[name]))
}

func (w *gaugeWorld) resource() *client.Resource[*Gauge] {
	resource, err := client.ForResource[*Gauge](w.config, gauges, w.namespace)
	require.NoError(w, err)
	return resource
}

func (w *gaugeWorld) metadata() *informer.Informer[informer.Metadata[Gauge]] {
	all, err := metadata.NewForConfig(w.config)
	require.NoError(w, err)
	return informer.NewMetadata[Gauge](all.Resource(gauges).Namespace(w.namespace))
}

// gaugeCache is a cache that runs.
type gaugeCache struct {
	shows func() map[string]string
	stop  func()
}

// informed runs an informer.
func informed[T any](w *gaugeWorld, name string, i *informer.Informer[T], of func(T) string) gaugeCache {
	i.Handle(informer.HandlerFunc[T](func(_ context.Context, e eventqueue.Event[T]) error {
		if e.Type == eventqueue.Modification {
			w.note(name, e.Key.Name)
		}
		return nil
	}))
	stop := run(w.T, i)
	require.NoError(w, i.WaitForSync(within(w.T, patience)), name)
	return gaugeCache{stop: stop, shows: func() map[string]string {
		all := map[string]string{}
		for key, object := range i.Cache().All() {
			all[key.Name] = of(object)
		}
		return all
	}}
}

// sharedGauges has a handler listen to an informer of client-go's interfaces, which somebody else runs.
func sharedGauges(w *gaugeWorld, name string, i cache.SharedIndexInformer, stop func()) gaugeCache {
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
		w.note(name, object.(metav1.Object).GetName())
	}})
	require.NoError(w, err)
	require.True(w, cache.WaitForCacheSync(within(w.T, patience).Done(), i.HasSynced), name)
	return gaugeCache{stop: stop, shows: func() map[string]string {
		all := map[string]string{}
		for _, object := range i.GetStore().List() {
			u := object.(*unstructured.Unstructured)
			all[u.GetName()] = reads(u)
		}
		return all
	}}
}

// runner is a function that runs until a context ends.
type runner func(context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

// gets returns what reads of single objects return.
func (w *gaugeWorld) gets(get func(context.Context, store.Key) (*Gauge, error)) func() map[string]string {
	return func() map[string]string {
		all := map[string]string{}
		for _, name := range []string{"a", "b", "given"} {
			g, err := get(w.Context(), store.Key{Namespace: w.namespace, Name: name})
			if err != nil {
				return nil // the storage of a definition is being replaced
			}
			all[name] = g.reads()
		}
		return all
	}
}

func persisted(w *gaugeWorld, name, folder string) gaugeCache {
	s, err := persist.Open(filepath.Join(folder, "gauges"), store.ObjectKey[*Gauge], persist.Options[*Gauge]{Resource: "gauges"})
	require.NoError(w, err)
	c := informed(w, name, informer.NewStored(w.resource(), s), (*Gauge).reads)
	end := c.stop
	c.stop = sync.OnceFunc(func() {
		end()
		assert.NoError(w, s.Close())
	})
	w.Cleanup(c.stop)
	return c
}

// gaugeCaches are all kinds of caches. Each start has its name and a folder of its own.
var gaugeCaches = []struct {
	name     string
	start    func(w *gaugeWorld, name, folder string) gaugeCache
	restarts bool     // it does not run while the definition changes
	silent   []string // objects of whose modifications its handlers do not hear
	metadata bool     // it holds no more than that
}{
	{name: "typed", start: func(w *gaugeWorld, name, _ string) gaugeCache {
		return informed(w, name, informer.New(w.resource()), (*Gauge).reads)
	}},
	{name: "typed, by lists", start: func(w *gaugeWorld, name, _ string) gaugeCache {
		return informed(w, name, informer.New(w.resource(), informer.WithReflector(reflector.WithoutWatchList())), (*Gauge).reads)
	}},
	{name: "dynamic", start: func(w *gaugeWorld, name, _ string) gaugeCache {
		return informed(w, name, informer.New(client.Dynamic(w.dynamic.Resource(gauges).Namespace(w.namespace))), reads)
	}},
	{name: "metadata", metadata: true, silent: []string{"a", "b", "given"}, start: func(w *gaugeWorld, name, _ string) gaugeCache {
		return informed(w, name, w.metadata(), func(m informer.Metadata[Gauge]) string { return m.GetResourceVersion() })
	}},
	{name: "transformed", start: func(w *gaugeWorld, name, _ string) gaugeCache {
		type reading struct {
			key  store.Key
			text string
		}
		i := informer.NewTransformed(w.resource(), func(g *Gauge) (reading, error) {
			key, err := store.ObjectKey(g)
			return reading{key, g.reads()}, err
		}, func(r reading) (store.Key, error) { return r.key, nil })
		return informed(w, name, i, func(r reading) string { return r.text })
	}},
	{name: "adapter", start: func(w *gaugeWorld, name, _ string) gaugeCache {
		d := w.dynamic.Resource(gauges).Namespace(w.namespace)
		i := clientgo.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return d.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return d.Watch(ctx, o) },
		}, &unstructured.Unstructured{}, 0, cache.Indexers{})
		return sharedGauges(w, name, i, run(w.T, runner(func(ctx context.Context) error { i.RunWithContext(ctx); return nil })))
	}},
	{name: "factory", start: func(w *gaugeWorld, name, _ string) gaugeCache {
		f := factory.NewFilteredDynamicSharedInformerFactory(w.dynamic, 0, w.namespace, nil)
		i := f.ForResource(gauges).Informer()
		stop := run(w.T, runner(func(ctx context.Context) error {
			f.Start(ctx.Done())
			<-ctx.Done()
			f.Shutdown()
			return nil
		}))
		return sharedGauges(w, name, i, stop)
	}},
	{name: "on demand", silent: []string{"a", "b", "given"}, start: func(w *gaugeWorld, name, _ string) gaugeCache {
		metas := w.metadata()
		whole, err := ondemand.New(w.resource().In, metas.Cache())
		require.NoError(w, err)
		w.Cleanup(whole.Close)
		c := informed(w, name, metas, func(informer.Metadata[Gauge]) string { return "" })
		c.shows = w.gets(whole.Get)
		return c
	}},
	{name: "persisted", start: persisted},
	{name: "persisted and restarted", start: persisted, restarts: true},
	{name: "compact", silent: []string{"a", "b", "given"}, start: func(w *gaugeWorld, name, _ string) gaugeCache {
		s := compact.New(store.ObjectKey[*Gauge])
		stop := run(w.T, reflector.New(w.resource(), s))
		return gaugeCache{stop: stop, shows: func() map[string]string {
			all := map[string]string{}
			for key, object := range s.All() {
				all[key.Name] = object.reads()
			}
			return all
		}}
	}},
	{name: "packed", start: func(w *gaugeWorld, name, _ string) gaugeCache {
		packer := compact.NewPacker(store.ObjectKey[*Gauge])
		i := informer.NewTransformed(w.resource(), packer.Pack, compact.Key)
		return informed(w, name, i, func(p *compact.Packed[*Gauge]) string { return p.Object().reads() })
	}},
}

// store-S9 with the two ways in which a server shows an object differently without a write: a default is added to a definition, and a conversion webhook
// gets a successor with another answer.
func TestEveryCacheFollowsADefinition(t *testing.T) {
	w := newGaugeWorld(t)
	running := map[string]gaugeCache{}
	folders := map[string]string{}
	for _, kind := range gaugeCaches {
		folders[kind.name] = t.TempDir()
		running[kind.name] = kind.start(w, kind.name, folders[kind.name])
	}
	compare := func() {
		t.Helper()
		for _, kind := range gaugeCaches {
			of := reads
			if kind.metadata {
				of = (*unstructured.Unstructured).GetResourceVersion
			}
			want := w.listed(of)
			require.Len(t, want, 3)
			eventually(t, fmt.Sprintf("the cache %s to have %v", kind.name, want), func() bool { return maps.Equal(want, running[kind.name].shows()) })
		}
	}
	compare()
	var modified []string
	for _, step := range []struct {
		what, patch, shown string
		modified           []string
	}{
		{"a default is added", `[
			{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/unit/default", "value": "metre"},
			{"op": "add", "path": "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/unit/default", "value": "metre"}
		]`, "metre/one", []string{"a", "b"}},
		{"the webhook has a successor", fmt.Sprintf(`[{"op": "replace", "path": "/spec/conversion/webhook/clientConfig/url", "value": %q}]`, w.converter+"/two"),
			"metre/two", []string{"a", "b", "given"}},
	} {
		versions := w.listed((*unstructured.Unstructured).GetResourceVersion)
		for _, kind := range gaugeCaches {
			if kind.restarts {
				running[kind.name].stop()
			}
		}
		w.change(step.patch)
		eventually(t, step.what, func() bool { return w.shown("a") == step.shown })
		for _, kind := range gaugeCaches {
			if kind.restarts {
				running[kind.name] = kind.start(w, kind.name, folders[kind.name])
			}
		}
		compare()
		assert.Equal(t, versions, w.listed((*unstructured.Unstructured).GetResourceVersion), "nobody wrote")
		modified = append(modified, step.modified...)
		for _, kind := range gaugeCaches {
			want := slices.DeleteFunc(slices.Clone(modified), func(name string) bool { return slices.Contains(kind.silent, name) })
			slices.Sort(want)
			eventually(t, fmt.Sprintf("the handlers of %s to hear of %v", kind.name, want), func() bool { return len(w.noted(kind.name)) >= len(want) })
			assert.ElementsMatch(t, want, w.noted(kind.name), kind.name)
		}
	}
}
