package factory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

func TestMain(m *testing.M) {
	// One of them waits by the time of the system, which is not that of a test.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

type ours = clientgo.SharedIndexInformer[clientgo.Object]

// wrapped is a clientset that is not client-go's own.
type wrapped struct{ kubernetes.Interface }

func named(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"name": name}}}
}

// start returns a server with ConfigMaps.
func start(t *testing.T, objects ...*corev1.ConfigMap) (*reflectortest.Server, *kubernetes.Clientset) {
	server := reflectortest.Start(t)
	for _, object := range objects {
		require.NoError(t, server.Create(object))
	}
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return server, clientset
}

// run runs the informers of a factory, which are synced when run returns, until the test has ended.
func run(t *testing.T, f SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { // before the server ends
		cancel()
		f.Shutdown()
	})
	f.StartWithContext(ctx)
	require.NoError(t, f.WaitForCacheSyncWithContext(ctx).AsError())
}

// clientsets are the ways in which a factory gets objects.
var clientsets = map[string]func(*kubernetes.Clientset) kubernetes.Interface{
	"by the wire":          func(c *kubernetes.Clientset) kubernetes.Interface { return c },
	"by generated methods": func(c *kubernetes.Clientset) kubernetes.Interface { return wrapped{c} },
}

func TestFactoryHasOneInformerForEachKind(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, clientset := start(t, named("shop", "a"), named("shop", "b"))
				f := NewSharedInformerFactory(of(clientset), 0)
				first := f.Core().V1().ConfigMaps().Informer()
				i := f.InformerFor(&corev1.ConfigMap{}, nil)
				require.IsType(t, &ours{}, i)
				assert.Equal(t, "informer *v1.ConfigMap", i.HasSyncedChecker().Name())
				// client-go 0.37 puts the informer into a struct that adds typed methods.
				assert.Same(t, i.GetIndexer(), first.GetIndexer())
				assert.Same(t, i.GetIndexer(), f.Core().V1().ConfigMaps().Informer().GetIndexer())
				generic, err := f.ForResource(configMaps)
				require.NoError(t, err)
				assert.Same(t, i, generic.Informer())
				_, err = f.ForResource(schema.GroupVersionResource{Resource: "nothings"})
				assert.Error(t, err)

				ctx, cancel := context.WithCancel(t.Context())
				f.StartWithContext(ctx)
				require.NoError(t, f.WaitForCacheSyncWithContext(ctx).AsError())
				assert.Len(t, server.Requests(), 1, "one watch-list")
				f.StartWithContext(ctx)
				synctest.Wait()
				assert.Len(t, server.Requests(), 1, "it runs already")
				one, err := f.Core().V1().ConfigMaps().Lister().ConfigMaps("shop").Get("a")
				require.NoError(t, err)
				assert.Equal(t, "a", one.Name)
				asked, err := clientset.CoreV1().ConfigMaps("shop").Get(ctx, "a", metav1.GetOptions{})
				require.NoError(t, err)
				assert.Equal(t, asked, one)
				all, err := generic.Lister().ByNamespace("shop").List(labels.Everything())
				require.NoError(t, err)
				assert.Len(t, all, 2)

				f.Core().V1().Secrets().Informer()
				assert.Len(t, f.WaitForCacheSync(ctx.Done()), 1, "Secrets were not started")
				f.Start(ctx.Done())
				assert.Len(t, f.WaitForCacheSync(ctx.Done()), 2)
				cancel()
				f.Shutdown()
				assert.True(t, i.IsStopped())
				f.Core().V1().Pods().Informer()
				f.StartWithContext(t.Context()) // does nothing any more
				synctest.Wait()
				assert.Len(t, server.Requests(), 3)
			})
		})
	}
}

func TestOptionsOfFactories(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, clientset := start(t, named("shop", "a"), named("shop", "b"), named("stock", "a"))
				f := NewSharedInformerFactoryWithOptions(of(clientset), 0,
					WithNamespace("shop"),
					WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "name=a" }),
					WithTransform(func(object any) (any, error) {
						object.(*corev1.ConfigMap).Data = map[string]string{"transformed": "yes"}
						return object, nil
					}),
					WithCustomResyncConfig(map[metav1.Object]time.Duration{&corev1.ConfigMap{}: time.Minute}),
				)
				i := f.Core().V1().ConfigMaps()
				var resyncs atomic.Int32
				_, err := i.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { resyncs.Add(1) }})
				require.NoError(t, err)
				run(t, f)
				assert.Equal(t, []string{"shop/a"}, i.Informer().GetIndexer().ListKeys())
				require.NoError(t, server.Create(named("shop", "c")))
				<-time.After(90 * time.Second)
				synctest.Wait()
				assert.Equal(t, []string{"shop/a"}, i.Informer().GetIndexer().ListKeys())
				one, err := i.Lister().ConfigMaps("shop").Get("a")
				require.NoError(t, err)
				assert.Equal(t, "yes", one.Data["transformed"])
				assert.EqualValues(t, 1, resyncs.Load())
			})
		})
	}
}

// TestTransformMayEditItsObject has equal labels, which the objects of the wire share.
func TestTransformMayEditItsObject(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var objects []*corev1.ConfigMap
				for n := range 300 {
					one := named("shop", fmt.Sprint(n))
					one.Labels = map[string]string{"app": "web"}
					objects = append(objects, one)
				}
				_, clientset := start(t, objects...)
				f := NewSharedInformerFactoryWithOptions(of(clientset), 0, WithTransform(func(object any) (any, error) {
					c := object.(*corev1.ConfigMap)
					c.Labels["name"] = c.Name
					return c, nil
				}))
				lister := f.Core().V1().ConfigMaps().Lister()
				run(t, f)
				for _, one := range objects {
					c, err := lister.ConfigMaps("shop").Get(one.Name)
					require.NoError(t, err)
					require.Equal(t, one.Name, c.Labels["name"])
				}
			})
		})
	}
}

func TestTweakMayReplaceAllOptions(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, clientset := start(t, named("shop", "a"))
				f := NewFilteredSharedInformerFactory(of(clientset), 0, "", func(o *metav1.ListOptions) { *o = metav1.ListOptions{} })
				i := f.Core().V1().ConfigMaps().Informer()
				run(t, f)
				require.NoError(t, server.Create(named("shop", "b")))
				<-time.After(time.Minute)
				assert.Equal(t, []string{"shop/a", "shop/b"}, i.GetIndexer().ListKeys())
			})
		})
	}
}

// What a tweak leaves out exists: an informer without a label selector of its own must not take its
// cache for proof.
func TestObjectThatATweakLeavesOutIsNotGone(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, clientset := start(t, named("shop", "a"), named("shop", "b"), named("stock", "a"))
				f := NewFilteredSharedInformerFactory(of(clientset), 0, "shop", func(o *metav1.ListOptions) { o.LabelSelector = "name=a" })
				f.Core().V1().ConfigMaps().Informer()
				i := f.InformerFor(&corev1.ConfigMap{}, nil).(*ours).Informer()
				run(t, f)
				left := named("shop", "a")
				require.NoError(t, server.Get(left))
				left.Labels = nil
				require.NoError(t, server.Update(left))
				<-time.After(time.Minute)
				require.Zero(t, i.Cache().Len())
				for object, isGone := range map[string]bool{"a": false, "b": false, "c": true} {
					key := store.Key{Namespace: "shop", Name: object}
					assert.False(t, i.Covers(key), object)
					gone, err := i.Gone(t.Context(), key)
					if name == "by the wire" {
						require.NoError(t, err)
						assert.Equal(t, isGone, gone, object)
					} else {
						assert.ErrorContains(t, err, "selects by itself", "generated methods cannot get an object: %s", object)
					}
				}
				gone, err := i.Gone(t.Context(), store.Key{Namespace: "stock", Name: "a"})
				require.NoError(t, err)
				assert.False(t, gone, "of another namespace")
			})
		})
	}
}

// A tweak assigns to the field selector, of which a probe after a broken watch needs its own part.
func TestProbeAsksForItsObjectDespiteATweak(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, clientset := start(t, named("shop", "a"), named("shop", "b"))
				f := NewFilteredSharedInformerFactory(of(clientset), 0, "", func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name!=zzz" })
				i := f.Core().V1().ConfigMaps().Informer()
				server.Inject(reflectortest.ResetAfterEvents(4).On("watch", "configmaps").Times(1)) // the last is the update
				run(t, f)
				changed := named("shop", "a")
				require.NoError(t, server.Get(changed))
				changed.Labels["changed"] = "yes"
				require.NoError(t, server.Update(changed))
				<-time.After(time.Minute)
				probes := server.Requests(reflectortest.Verb("list"))
				require.NotEmpty(t, probes)
				for _, probe := range probes {
					assert.Equal(t, "1", probe.Query.Get("limit"))
					assert.ElementsMatch(t, []string{"metadata.name=a", "metadata.namespace=shop", "metadata.name!=zzz"}, strings.Split(probe.Query.Get("fieldSelector"), ","))
				}
				assert.Len(t, i.GetIndexer().ListKeys(), 2)
			})
		})
	}
}

// client-go calls a tweak for lists and watches only, and before its clients set Watch.
func TestTweakSeesWhatClientGosDoes(t *testing.T) {
	seen := map[string][]metav1.ListOptions{}
	for name, of := range clientsets {
		synctest.Test(t, func(t *testing.T) {
			server, clientset := start(t, named("shop", "a"))
			var mu sync.Mutex
			f := NewFilteredSharedInformerFactory(of(clientset), 0, "", func(o *metav1.ListOptions) {
				mu.Lock()
				defer mu.Unlock()
				seen[name] = append(seen[name], metav1.ListOptions{Watch: o.Watch, AllowWatchBookmarks: o.AllowWatchBookmarks})
			})
			server.Inject(reflectortest.Answer(http.StatusForbidden).On("watch", "configmaps").Times(1)) // so that it lists, and asks for the version
			f.Core().V1().ConfigMaps().Informer()
			run(t, f)
			<-time.After(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			for _, o := range seen[name] {
				assert.False(t, o.Watch, name)
			}
			assert.Len(t, seen[name], len(server.Requests(reflectortest.Verb("list")))+len(server.Requests(reflectortest.Verb("watch"))), name)
		})
	}
}

func TestFilteredFactory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, clientset := start(t, named("shop", "a"), named("stock", "b"))
		f := NewFilteredSharedInformerFactory(clientset, 0, "stock", nil)
		i := f.Core().V1().ConfigMaps().Informer()
		run(t, f)
		assert.Equal(t, []string{"stock/b"}, i.GetIndexer().ListKeys())
	})
}

// A program may go on to use the informer that it made.
func TestInformerThatTheCallerMakesIsUsedAsItIs(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			_, clientset := start(t, named("shop", "a"), named("stock", "b"))
			f := NewSharedInformerFactoryWithOptions(of(clientset), 0, WithNamespace("shop"))
			mine := coreinformers.NewConfigMapInformer(clientset, "stock", 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			assert.Same(t, mine, f.InformerFor(&corev1.ConfigMap{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return mine }))
			assert.Same(t, mine.GetIndexer(), f.Core().V1().ConfigMaps().Informer().GetIndexer())
			added := make(chan any, 1)
			_, err := mine.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) { added <- object }})
			require.NoError(t, err)
			own := clientgo.NewTyped(clientset.CoreV1().Secrets(""))
			assert.Same(t, own, f.InformerFor(&corev1.Secret{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return own }))
			run(t, f)
			assert.True(t, mine.HasSynced())
			assert.Equal(t, "b", (<-added).(*corev1.ConfigMap).Name)
			assert.True(t, own.HasSynced())
		})
	}
}

// A generated constructor makes an informer of client-go. A factory of its own makes the same one of ours.
func TestFilteredFactoryStandsForAGeneratedConstructor(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, clientset := start(t, named("shop", "a"), named("shop", "b"), named("stock", "a"))
				f := NewSharedInformerFactory(of(clientset), 0)
				onlyA := func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=a" }
				i := f.InformerFor(&corev1.ConfigMap{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
					// In place of coreinformers.NewFilteredConfigMapInformer(client, "shop", resync, indexers, onlyA).
					return NewFilteredSharedInformerFactory(client, resync, "shop", onlyA).Core().V1().ConfigMaps().Informer()
				})
				byLabel := func(object any) ([]string, error) { return []string{object.(*corev1.ConfigMap).Labels["name"]}, nil }
				require.NoError(t, i.AddIndexers(cache.Indexers{"label": byLabel}))
				require.NotNil(t, i.GetIndexer().GetIndexers()[cache.NamespaceIndex])
				run(t, f)

				keys, err := f.Core().V1().ConfigMaps().Informer().GetIndexer().IndexKeys("label", "a")
				require.NoError(t, err)
				assert.Equal(t, []string{"shop/a"}, keys)
				assert.Equal(t, []string{"shop/a"}, i.GetIndexer().ListKeys())
				_, err = i.AddEventHandler(nil)
				assert.ErrorIs(t, err, clientgo.ErrNoHandler, "it is ours")
			})
		})
	}
}

// warnings are the texts of a warning handler.
type warnings chan string

func (w warnings) HandleWarningHeader(_ int, _, text string) { w <- text }

func TestWarningsGoToTheHandlerOfTheClientset(t *testing.T) {
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			server, _ := start(t, named("shop", "a"))
			config := server.Config()
			given := make(warnings, 10)
			config.WarningHandler = given
			config.Wrap(func(to http.RoundTripper) http.RoundTripper { return warning{to} })
			clientset, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)
			f := NewSharedInformerFactory(of(clientset), 0)
			f.Core().V1().ConfigMaps().Informer()
			run(t, f)
			assert.Equal(t, "deprecated", <-given)
		})
	}
}

// warning is a transport that adds a warning to each answer.
type warning struct{ http.RoundTripper }

func (w warning) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Header.Add("Warning", `299 - "deprecated"`)
	}
	return response, err
}

// A proxy may be able to read JSON only, or may audit it.
func TestContentTypesAreThoseOfTheClientset(t *testing.T) {
	for name, test := range map[string]struct {
		set      func(*rest.Config)
		protobuf bool
	}{
		"by default":       {func(*rest.Config) {}, true},
		"protobuf":         {func(c *rest.Config) { c.ContentType = runtime.ContentTypeProtobuf }, true},
		"JSON":             {func(c *rest.Config) { c.ContentType = runtime.ContentTypeJSON }, false},
		"JSON is accepted": {func(c *rest.Config) { c.AcceptContentTypes = runtime.ContentTypeJSON }, false},
		"JSON, protobuf accepted": {func(c *rest.Config) {
			c.AcceptContentTypes, c.ContentType = runtime.ContentTypeProtobuf, runtime.ContentTypeJSON
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, of := range clientsets {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					require.NoError(t, server.Create(named("shop", "a")))
					config := server.Config()
					test.set(config)
					clientset, err := kubernetes.NewForConfig(config)
					require.NoError(t, err)
					f := NewSharedInformerFactory(of(clientset), 0)
					f.Core().V1().ConfigMaps().Informer()
					run(t, f)
					for _, r := range server.Requests() {
						assert.Equal(t, test.protobuf, strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf), "%s: %s", kind, r.Header)
					}
				})
			}
		})
	}
}

func TestFallBackToClientGosInformerIsLogged(t *testing.T) {
	defer klog.CaptureState().Restore()
	var lines []string
	klog.SetLoggerWithOptions(funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}), klog.ContextualLogger(true))
	_, clientset := start(t)
	f := generated{NewSharedInformerFactory(clientset, 0).(*factory)}
	unknown := &struct{ cache.SharedIndexInformer }{coreinformers.NewSecretInformer(clientset, "", 0, nil)}
	assert.Same(t, unknown, f.InformerFor(&corev1.Secret{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return unknown }))
	f.Core().V1().ConfigMaps().Informer()
	require.Len(t, lines, 1, "only about the Secrets")
	assert.Contains(t, lines[0], "client-go's informer is used")
	assert.Contains(t, lines[0], `"type"="*v1.Secret"`)
}

func TestFieldsOfAClientsetThatMovedAreNotTaken(t *testing.T) {
	client := reflect.ValueOf(&rest.RESTClient{}).Elem()
	request := reflect.ValueOf(&rest.Request{}).Elem()
	moved := reflect.ValueOf(&struct{}{}).Elem()
	for name, test := range map[string]struct {
		client, request reflect.Value
		ok              bool
	}{
		"as they are":          {client, request, true},
		"of the REST client":   {moved, request, false},
		"of the REST requests": {client, moved, false},
	} {
		_, ok := (&wire{config: &rest.Config{}}).takeFrom(test.client, test.request)
		assert.Equal(t, test.ok, ok, name)
	}
}

// The informers of groups that are newer than client-go 0.36 are reached by their resource.
func TestFactoryHasAllBuiltInKinds(t *testing.T) {
	_, clientset := start(t)
	theirs := informers.NewSharedInformerFactory(clientset, 0)
	for name, of := range clientsets {
		t.Run(name, func(t *testing.T) {
			f := NewSharedInformerFactory(of(clientset), 0)
			found := 0
			for kind := range scheme.Scheme.AllKnownTypes() {
				resource, _ := meta.UnsafeGuessKindToResource(kind)
				if _, err := theirs.ForResource(resource); err != nil {
					continue
				}
				generic, err := f.ForResource(resource)
				require.NoError(t, err)
				assert.IsType(t, &ours{}, generic.Informer(), resource)
				found++
			}
			assert.GreaterOrEqual(t, found, 69)
		})
	}
}

// paths is a transport that records the paths of requests.
type paths struct {
	mu    sync.Mutex
	found map[string]bool
}

func (p *paths) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found[r.URL.Path] = true
	return nil, errors.New("no server")
}

// TestRequestsOfAFactoryAreThoseOfClientGo has kinds with and without namespaces. Before a list
// without a watch-list, our decoder also asks for the version of Kubernetes.
func TestRequestsOfAFactoryAreThoseOfClientGo(t *testing.T) {
	for _, namespace := range []string{"", "shop"} {
		requests := map[string][]string{}
		for name, of := range clientsets {
			synctest.Test(t, func(t *testing.T) {
				asked := &paths{found: map[string]bool{}}
				clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://server", Transport: asked, QPS: -1})
				require.NoError(t, err)
				f := NewSharedInformerFactoryWithOptions(of(clientset), 0, WithNamespace(namespace))
				for kind := range scheme.Scheme.AllKnownTypes() {
					resource, _ := meta.UnsafeGuessKindToResource(kind)
					if generic, err := f.ForResource(resource); err == nil {
						require.NoError(t, generic.Informer().SetWatchErrorHandler(func(*cache.Reflector, error) {}))
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				f.StartWithContext(ctx)
				<-time.After(time.Minute)
				cancel()
				f.Shutdown()
				delete(asked.found, "/version")
				requests[name] = slices.Sorted(maps.Keys(asked.found))
			})
		}
		assert.Equal(t, requests["by generated methods"], requests["by the wire"])
		assert.GreaterOrEqual(t, len(requests["by the wire"]), 69)
	}
}

func TestFactoryOfAFakeClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewSharedInformerFactory(fake.NewClientset(named("shop", "a")), 0)
		i := f.Core().V1().ConfigMaps().Informer()
		run(t, f)
		assert.Equal(t, []string{"shop/a"}, i.GetIndexer().ListKeys())
		assert.IsType(t, &ours{}, f.InformerFor(&corev1.ConfigMap{}, nil))
	})
}

// counting is a clientset that counts the calls of CoreV1.
type counting struct {
	*kubernetes.Clientset
	calls atomic.Int32
}

func (c *counting) CoreV1() corev1client.CoreV1Interface {
	c.calls.Add(1)
	return c.Clientset.CoreV1()
}

func TestClientsetOfAnotherTypeSendsTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, clientset := start(t, named("shop", "a"))
		c := &counting{Clientset: clientset}
		f := NewSharedInformerFactory(c, 0)
		f.Core().V1().ConfigMaps().Informer()
		before := c.calls.Load()
		run(t, f)
		assert.Greater(t, c.calls.Load(), before)
	})
}

func TestNameOfAFactoryIsInMetrics(t *testing.T) {
	for way, of := range clientsets {
		t.Run(way, func(t *testing.T) {
			name, err := cache.NewInformerName("factory test " + way)
			require.NoError(t, err)
			_, clientset := start(t)
			f := NewSharedInformerFactoryWithOptions(of(clientset), 0, WithInformerName(name))
			assert.Same(t, name, f.InformerName())
			_, err = f.ForResource(configMaps)
			require.NoError(t, err)
			_, err = f.ForResource(configMaps)
			require.NoError(t, err)
			assert.False(t, name.WithResource(configMaps).Reserved(), "the informer has reserved it")
			f.Shutdown()
		})
	}
}

// This test holds store-S9 for informers of factories.
func TestInformersFollowObjectsThatChangeUnderTheirVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, clientset := start(t, named("n", "a"), named("n", "b"))
		f := NewSharedInformerFactory(clientset, 0)
		var updated []string // by one goroutine at a time, and read when it waits
		_, err := f.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) {
			accessor, _ := meta.Accessor(object)
			updated = append(updated, accessor.GetName()+accessor.GetAnnotations()["form"])
		}})
		require.NoError(t, err)
		run(t, f)
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
	})
}
