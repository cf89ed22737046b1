package resources_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/informer/clientgo/dynamicinformer"
	"github.com/kubereflector/kubereflector/informer/clientgo/metadatainformer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

func TestMain(m *testing.M) {
	// One of them waits by the time of the system, which is not that of a test.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func named(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"name": name}}}
}

func start(t *testing.T, objects ...*corev1.ConfigMap) (*reflectortest.Server, *rest.Config) {
	server := reflectortest.Start(t)
	for _, object := range objects {
		require.NoError(t, server.Create(object))
	}
	return server, server.Config()
}

// factory has the methods that client-go's interfaces have in any version that is supported.
type factory interface {
	Start(stop <-chan struct{})
	StartWithContext(context.Context)
	ForResource(schema.GroupVersionResource) informers.GenericInformer
	WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool
	Shutdown()
}

// kinds are the kinds of factories.
var kinds = map[string]struct {
	all      func(*rest.Config) factory
	filtered func(config *rest.Config, namespace string, tweak func(*metav1.ListOptions)) factory
	alone    func(config *rest.Config, namespace string, indexers cache.Indexers) informers.GenericInformer
	double   func() factory // of a fake client with ConfigMap shop/a
	object   any
}{
	"dynamic": {
		func(c *rest.Config) factory {
			return dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(c), 0).(factory)
		},
		func(c *rest.Config, namespace string, tweak func(*metav1.ListOptions)) factory {
			return dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(c), 0, namespace, tweak).(factory)
		},
		func(c *rest.Config, namespace string, indexers cache.Indexers) informers.GenericInformer {
			return dynamicinformer.NewFilteredDynamicInformer(dynamic.NewForConfigOrDie(c), configMaps, namespace, 0, indexers, nil)
		},
		func() factory {
			return dynamicinformer.NewDynamicSharedInformerFactory(dynamicfake.NewSimpleDynamicClient(scheme.Scheme, named("shop", "a")), 0).(factory)
		},
		&unstructured.Unstructured{},
	},
	"metadata": {
		func(c *rest.Config) factory {
			return metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(c), 0).(factory)
		},
		func(c *rest.Config, namespace string, tweak func(*metav1.ListOptions)) factory {
			return metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(c), 0, namespace, tweak).(factory)
		},
		func(c *rest.Config, namespace string, indexers cache.Indexers) informers.GenericInformer {
			return metadatainformer.NewFilteredMetadataInformer(metadata.NewForConfigOrDie(c), configMaps, namespace, 0, indexers, nil)
		},
		func() factory {
			s := metadatafake.NewTestScheme()
			_ = metav1.AddMetaToScheme(s)
			a := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: named("shop", "a").ObjectMeta}
			return metadatainformer.NewSharedInformerFactory(metadatafake.NewSimpleMetadataClient(s, a), 0).(factory)
		},
		&metav1.PartialObjectMetadata{},
	},
}

func TestFactoriesByResource(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, config := start(t, named("shop", "a"), named("shop", "b"), named("stock", "a"))
				all, filtered := kind.all(config), kind.filtered(config, "shop", func(o *metav1.ListOptions) { o.LabelSelector = "name=a" })
				i := all.ForResource(configMaps)
				assert.Same(t, i.Informer(), all.ForResource(configMaps).Informer())
				assert.IsType(t, &clientgo.SharedIndexInformer[clientgo.Object]{}, i.Informer())
				few := filtered.ForResource(configMaps)
				stop := make(chan struct{})
				for _, f := range []factory{all, filtered} {
					assert.Empty(t, f.WaitForCacheSync(stop), "not started")
					f.Start(stop)
					f.Start(stop)
					assert.Equal(t, map[schema.GroupVersionResource]bool{configMaps: true}, f.WaitForCacheSync(stop))
				}
				assert.Len(t, i.Informer().GetIndexer().ListKeys(), 3)
				assert.Equal(t, []string{"shop/a"}, few.Informer().GetIndexer().ListKeys())
				one, err := i.Lister().ByNamespace("stock").Get("a")
				require.NoError(t, err)
				assert.IsType(t, kind.object, one)
				close(stop)
				all.Shutdown()
				filtered.Shutdown()
				assert.True(t, i.Informer().IsStopped())
				all.ForResource(corev1.SchemeGroupVersion.WithResource("secrets"))
				all.Start(t.Context().Done()) // does nothing any more
				all.StartWithContext(t.Context())
				all.Shutdown()

				again := kind.all(config)
				i = again.ForResource(configMaps)
				ctx, cancel := context.WithCancel(t.Context())
				again.StartWithContext(ctx)
				assert.Equal(t, map[schema.GroupVersionResource]bool{configMaps: true}, again.WaitForCacheSync(t.Context().Done()))
				cancel()
				again.Shutdown()
				assert.True(t, i.Informer().IsStopped())
			})
		})
	}
}

// What the namespace and the tweak of a factory leave out exists: its informer must not take its cache for
// proof.
func TestObjectThatAFactoryLeavesOutIsNotGone(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, config := start(t, named("shop", "a"), named("shop", "b"), named("stock", "a"))
				some := kind.filtered(config, "shop", func(o *metav1.ListOptions) { o.LabelSelector = "name=a" })
				whole := kind.filtered(config, "shop", nil)
				of := func(f factory) *informer.Informer[clientgo.Object] {
					return f.ForResource(configMaps).Informer().(*clientgo.SharedIndexInformer[clientgo.Object]).Informer()
				}
				i, all := of(some), of(whole)
				stop := make(chan struct{})
				for _, f := range []factory{some, whole} {
					f.Start(stop)
					f.WaitForCacheSync(stop)
				}
				left := named("shop", "a")
				require.NoError(t, server.Get(left))
				left.Labels = nil
				require.NoError(t, server.Update(left))
				<-time.After(time.Minute)
				require.Zero(t, i.Cache().Len())
				key := func(namespace, name string) store.Key { return store.Key{Namespace: namespace, Name: name} }
				for object, want := range map[store.Key]bool{key("shop", "a"): false, key("shop", "b"): false, key("shop", "c"): true, key("stock", "a"): false} {
					assert.False(t, i.Covers(object), object)
					gone, err := i.Gone(t.Context(), object)
					require.NoError(t, err)
					assert.Equal(t, want, gone, object)
				}
				assert.True(t, all.Covers(key("shop", "c")))
				assert.False(t, all.Covers(key("stock", "a")))
				gone, err := all.Gone(t.Context(), key("stock", "a"))
				require.NoError(t, err)
				assert.False(t, gone)
				close(stop)
				some.Shutdown()
				whole.Shutdown()
			})
		})
	}
}

func TestInformerOfNoFactory(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, config := start(t, named("shop", "a"), named("stock", "b"))
				i := kind.alone(config, "shop", cache.Indexers{"all": func(any) ([]string, error) { return []string{"all"}, nil }})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); i.Informer().RunWithContext(ctx) }()
				require.True(t, cache.WaitForCacheSync(ctx.Done(), i.Informer().HasSynced))
				keys, err := i.Informer().GetIndexer().IndexKeys("all", "all")
				require.NoError(t, err)
				assert.Equal(t, []string{"shop/a"}, keys)
				_, err = i.Lister().Get("shop/a")
				assert.NoError(t, err)
				cancel()
				<-ended
			})
		})
	}
}

func TestTransformOfAFactoryOfMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, config := start(t, named("shop", "a"))
		f := metadatainformer.NewSharedInformerFactoryWithOptions(metadata.NewForConfigOrDie(config), 0, metadatainformer.WithTransform(func(object any) (any, error) {
			object.(*metav1.PartialObjectMetadata).Labels["transformed"] = "yes"
			return object, nil
		}))
		i := f.ForResource(configMaps)
		stop := make(chan struct{})
		f.Start(stop)
		f.WaitForCacheSync(stop)
		one, err := i.Lister().ByNamespace("shop").Get("a")
		require.NoError(t, err)
		assert.Equal(t, "yes", one.(metav1.Object).GetLabels()["transformed"])
		close(stop)
		f.Shutdown()
	})
}

func TestFactoriesOfFakeClients(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := kind.double()
				indexer := f.ForResource(configMaps).Informer().GetIndexer()
				stop := make(chan struct{})
				f.Start(stop)
				began := time.Now()
				f.WaitForCacheSync(stop)
				assert.Less(t, time.Since(began), time.Second)
				assert.Equal(t, []string{"shop/a"}, indexer.ListKeys())
				object := indexer.List()[0]
				assert.NoError(t, indexer.Delete(object))
				assert.Empty(t, indexer.ListKeys())
				close(stop)
				f.Shutdown()
			})
		})
	}
}

// This test holds store-S9 for informers of factories.
func TestInformersFollowObjectsThatChangeUnderTheirVersions(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, config := start(t, named("n", "a"), named("n", "b"))
				f := kind.all(config)
				var updated []string // by one goroutine at a time, and read when it waits
				_, err := f.ForResource(configMaps).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
					accessor, _ := meta.Accessor(object)
					updated = append(updated, accessor.GetName()+accessor.GetAnnotations()["form"])
				}})
				require.NoError(t, err)
				stop := make(chan struct{})
				f.Start(stop)
				<-time.After(time.Minute)
				for _, form := range []string{"1", "1", "2"} {
					require.NoError(t, server.Convert("configmaps", func(object metav1.Object) {
						if object.GetName() == "a" {
							object.SetAnnotations(map[string]string{"form": form})
						}
					}))
					<-time.After(2 * time.Minute)
				}
				synctest.Wait()
				assert.Equal(t, []string{"a1", "a2"}, updated)
				close(stop)
				f.Shutdown()
			})
		})
	}
}

// computing is an extension server whose lists have no version, and which serves no watch.
type computing struct{ names atomic.Value }

func (c *computing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
	if r.URL.Query().Get("watch") != "" {
		answer.StatusCode = http.StatusMethodNotAllowed
		return answer, nil
	}
	api, kind := "v1", "ConfigMap"
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		api, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	var items []string
	for _, name := range c.names.Load().([]string) {
		items = append(items, fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"namespace":"shop","name":%q}}`, kind, api, name))
	}
	answer.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"kind":"%sList","apiVersion":%q,"metadata":{},"items":[%s]}`, kind, api, strings.Join(items, ","))))
	return answer, nil
}

func TestFactoriesPollListsWithoutAVersion(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var server computing
				server.names.Store([]string{"a", "b"})
				f := kind.all(&rest.Config{Host: "http://server", Transport: &server})
				i := f.ForResource(configMaps).Informer().(*clientgo.SharedIndexInformer[clientgo.Object])
				stop := make(chan struct{})
				f.Start(stop)
				f.WaitForCacheSync(stop)
				assert.Len(t, i.GetIndexer().ListKeys(), 2)
				server.names.Store([]string{"b"})
				<-time.After(time.Minute)
				synctest.Wait()
				assert.Equal(t, []string{"shop/b"}, i.GetIndexer().ListKeys())
				assert.Equal(t, reflector.Polling, i.Informer().State().Phase)
				<-time.After(10 * time.Minute)
				require.NoError(t, i.Informer().Ready())
				close(stop)
				f.Shutdown()
			})
		})
	}
}
