package informer

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/contrib/compact"
	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"github.com/kubereflector/kubereflector/contrib/persist"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/informer/clientgo/dynamicinformer"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

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

// managed runs a cache for controller-runtime, and reads by Get.
func managed(opts controllerruntime.Options) func(*gaugeWorld, string, string) gaugeCache {
	return func(w *gaugeWorld, name, _ string) gaugeCache {
		scheme := runtime.NewScheme()
		scheme.AddKnownTypes(gauges.GroupVersion(), &Gauge{}, &GaugeList{})
		metav1.AddToGroupVersion(scheme, gauges.GroupVersion())
		c, err := opts.NewCache(w.config, crcache.Options{Scheme: scheme, DefaultNamespaces: map[string]crcache.Config{w.namespace: {}}})
		require.NoError(w, err)
		stop := run(w.T, runner(c.Start))
		require.True(w, c.WaitForCacheSync(within(w.T, patience)))
		i, err := c.GetInformer(w.Context(), &Gauge{})
		require.NoError(w, err)
		_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
			w.note(name, object.(metav1.Object).GetName())
		}})
		require.NoError(w, err)
		return gaugeCache{stop: stop, shows: w.gets(func(ctx context.Context, key store.Key) (*Gauge, error) {
			var g Gauge
			return &g, c.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, &g)
		})}
	}
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
		f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(w.dynamic, 0, w.namespace, nil)
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
	{name: "controller-runtime", start: managed(controllerruntime.Options{})},
	{name: "controller-runtime, by reference", silent: []string{"b", "given"}, start: managed(controllerruntime.Options{
		ByReference: map[crclient.Object]controllerruntime.Reference{&Gauge{}: {Owned: labels.SelectorFromSet(labels.Set{"owned": "true"})}},
	})},
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
