package reflector_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

var configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// Paint is a ConfigMap as somebody sees it who has no generated types: metadata and
// JSON tags are all that it takes.
type Paint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              struct {
		Color string `json:"color"`
	} `json:"data"`
}

// reflects runs a reflector of a client against a server that changes, and looks at
// the color of the two objects in the end.
func reflects[T reflector.Object, L any](t *testing.T, server *reflectortest.Server, resource reflector.Client[T, L], color func(T) string) {
	s := store.New(store.ObjectKey[T])
	r := reflector.New(resource, s)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()
	<-r.Synced()
	assert.Equal(t, 2, s.Len())
	require.NoError(t, server.Create(paint("c", "blue")))
	a := &corev1.ConfigMap{}
	a.Namespace, a.Name = "default", "a"
	require.NoError(t, server.Delete(a))
	b := paint("b", "green")
	require.NoError(t, server.Update(b))
	synctest.Wait()
	var got []string
	for key, object := range s.All() {
		got = append(got, key.Name+" "+color(object))
		assert.NotEmpty(t, object.GetUID())
	}
	assert.Equal(t, []string{"b green", "c blue"}, got)
	assert.NoError(t, r.State().Err)
	cancel()
	require.NoError(t, <-result)

	streams := server.Requests(reflectortest.Verb("watch"), reflectortest.Param("sendInitialEvents", "true"))
	assert.Len(t, streams, 1, "the first list is a watch-list")
	assert.Empty(t, server.Requests(reflectortest.Verb("list")))
}

func paint(name, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"color": color}}
}

func TestEveryKindOfClient(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *reflectortest.Server, *rest.Config){
		"typed": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			reflects(t, server, resource, func(c *corev1.ConfigMap) string { return c.Data["color"] })
		},
		"typed, in protobuf": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			config.ContentType = "application/vnd.kubernetes.protobuf"
			resource := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			reflects(t, server, resource, func(c *corev1.ConfigMap) string { return c.Data["color"] })
		},
		"without Get": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource := withoutGet{kubernetes.NewForConfigOrDie(config)}
			reflects(t, server, client.ListWatch[*corev1.ConfigMap](resource), func(c *corev1.ConfigMap) string { return c.Data["color"] })
		},
		"dynamic": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource := dynamic.NewForConfigOrDie(config).Resource(configMapResource).Namespace("default")
			reflects(t, server, client.Dynamic(resource), func(u *unstructured.Unstructured) string {
				color, _, _ := unstructured.NestedString(u.Object, "data", "color")
				return color
			})
		},
		"metadata": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource := metadata.NewForConfigOrDie(config).Resource(configMapResource).Namespace("default")
			reflects(t, server, client.Metadata(resource), func(p *metav1.PartialObjectMetadata) string {
				return map[string]string{"b": "green", "c": "blue"}[p.Name] // it has no data
			})
		},
		"resource, into a struct": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource, err := client.ForResource[*Paint](config, configMapResource, "default")
			require.NoError(t, err)
			reflects(t, server, resource, func(p *Paint) string { return p.Data.Color })
			got, err := resource.Get(t.Context(), "b", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, "green", got.Data.Color)
		},
		"resource, of all namespaces, listed": func(t *testing.T, _ *reflectortest.Server, config *rest.Config) {
			resource, err := client.ForResource[*unstructured.Unstructured](config, configMapResource, "")
			require.NoError(t, err)
			list, err := resource.List(t.Context(), metav1.ListOptions{Limit: 1})
			require.NoError(t, err)
			assert.Len(t, list.Items, 1)
			assert.NotEmpty(t, list.Continue)
			assert.Equal(t, "ConfigMapList", list.Kind)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				require.NoError(t, server.Create(paint("a", "red")))
				require.NoError(t, server.Create(paint("b", "red")))
				run(t, server, server.Config())
			})
		})
	}
}

type withoutGet struct{ clientset kubernetes.Interface }

func (w withoutGet) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return w.clientset.CoreV1().ConfigMaps("default").List(ctx, opts)
}

func (w withoutGet) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return w.clientset.CoreV1().ConfigMaps("default").Watch(ctx, opts)
}

func TestClientsThatCannotWork(t *testing.T) {
	u := store.New(store.ObjectKey[*unstructured.Unstructured])
	assert.ErrorIs(t, reflector.New(client.Dynamic(nil), u).Run(t.Context()), reflector.ErrNoClient)
	p := store.New(store.ObjectKey[*metav1.PartialObjectMetadata])
	assert.ErrorIs(t, reflector.New(client.Metadata(nil), p).Run(t.Context()), reflector.ErrNoClient)
	_, err := client.ForResource[metav1.Object](&rest.Config{}, configMapResource, "")
	assert.ErrorIs(t, err, client.ErrNoStruct)
	_, err = client.ForResource[*Paint](&rest.Config{Host: "http://%"}, configMapResource, "")
	assert.ErrorContains(t, err, "configmaps")
}

func TestGeneratedClientsAreClientsAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clientset kubernetes.Interface = fake.NewClientset(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "not mine"}})
		client := clientset.CoreV1().ConfigMaps("default")
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New(client, s)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- r.Run(ctx) }()

		<-r.Synced()
		assert.Equal(t, []string{"old"}, names(s))
		synctest.Wait() // until it watches: the fake forgets deletions before
		fresh := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}
		_, err := client.Create(ctx, fresh, metav1.CreateOptions{})
		require.NoError(t, err)
		fresh = fresh.DeepCopy()
		fresh.Data = map[string]string{"a": "b"}
		_, err = client.Update(ctx, fresh, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, client.Delete(ctx, "old", metav1.DeleteOptions{}))
		synctest.Wait()
		assert.Equal(t, []string{"new"}, names(s))
		got, _ := s.Get(store.Key{Namespace: "default", Name: "new"})
		assert.Equal(t, "b", got.Data["a"])

		cancel()
		require.NoError(t, <-result)
	})
}

func names(s store.Reader[*corev1.ConfigMap]) (names []string) {
	for key := range s.All() {
		names = append(names, key.Name)
	}
	return names
}

// TestClientAndStoreOfDifferentTypesDoNotCompile builds two programs that differ in one word. The
// go command starts once for both: it reports errors of the second one only.
func TestClientAndStoreOfDifferentTypesDoNotCompile(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "./testdata/match", "./testdata/mismatch")
	build.Env = append(os.Environ(), "GOWORK=off")
	built, err := build.CombinedOutput()
	out := string(built)
	require.Error(t, err)
	assert.Contains(t, out, "mismatch/main.go:16:", "the line of the call")
	assert.Contains(t, out, `type *store.Cache[*"k8s.io/api/core/v1".Pod]`)
	assert.Contains(t, out, `does not match inferred type store.Store[*"k8s.io/api/apps/v1".Deployment]`)
	assert.Equal(t, 1, strings.Count(out, "main.go:"), "nothing else is wrong: %s", out)
}

func TestGeneratedClientShowsWhatAResourceNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		require.NoError(t, server.Create(paint("b", "red")))
		elsewhere := paint("x", "red")
		elsewhere.Namespace = "elsewhere"
		require.NoError(t, server.Create(elsewhere))
		clientset := kubernetes.NewForConfigOrDie(server.Config())
		resource, err := client.FromTypedClient(clientset.CoreV1().ConfigMaps("default"))
		require.NoError(t, err)
		assert.Empty(t, server.Requests())
		reflects(t, server, resource, func(c *corev1.ConfigMap) string { return c.Data["color"] })
		assert.Len(t, server.Requests(), 2, "one that asks for the resources, and the watch")

		nodes, err := client.FromTypedClient(clientset.CoreV1().Nodes(), client.WithScheme(scheme.Scheme))
		require.NoError(t, err)
		_, err = nodes.List(t.Context(), metav1.ListOptions{})
		assert.NoError(t, err)
		other, err := client.FromTypedClient(clientset.CoreV1().ConfigMaps("default"), client.WithKind(corev1.SchemeGroupVersion.WithKind("Canvas")))
		require.NoError(t, err)
		_, err = other.List(t.Context(), metav1.ListOptions{})
		assert.ErrorIs(t, err, reflector.ErrNotServed)
	})
}

// overriding is a wrapper with a method of its own.
type overriding struct{ typedcorev1.ConfigMapInterface }

func TestClientThatDoesNotShowItsRESTClient(t *testing.T) {
	clientset := fake.NewClientset()
	_, err := client.FromTypedClient(clientset.CoreV1().ConfigMaps("default"))
	assert.ErrorIs(t, err, client.ErrNotGenerated)
	_, err = client.FromTypedClient[*corev1.ConfigMap](overriding{clientset.CoreV1().ConfigMaps("default")})
	assert.ErrorIs(t, err, client.ErrNotGenerated)
	_, err = client.FromTypedClient[*corev1.ConfigMap](nil)
	assert.ErrorIs(t, err, client.ErrNotGenerated)
}

func TestForTypeReadsTheObjectsOfTheTypedResource(t *testing.T) {
	t.Run("protobuf", func(t *testing.T) { sameAsTyped(t, &corev1.ConfigMap{}) })
	t.Run("JSON", func(t *testing.T) { sameAsTyped(t, &corev1.ConfigMap{}, client.WithoutProtobuf()) })
	t.Run("nil example", func(t *testing.T) { sameAsTyped(t, (*corev1.ConfigMap)(nil)) })
	t.Run("unstructured", func(t *testing.T) { sameAsTyped(t, &unstructured.Unstructured{}) })
	t.Run("metadata", func(t *testing.T) { sameAsTyped(t, &metav1.PartialObjectMetadata{}) })
	t.Run("options", func(t *testing.T) {
		sameAsTyped(t, &corev1.ConfigMap{}, client.WithoutInterning(), client.WithoutManagedFields())
	})
}

// object is what caches for all kinds use as T.
type object interface {
	metav1.Object
	runtime.Object
}

// sameAsTyped compares the objects of a client for T with those of a client for an interface.
func sameAsTyped[T object](t *testing.T, example T, opts ...client.ResourceOption) {
	for name, how := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList(), reflector.WithPageSize(1)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				require.NoError(t, server.Create(paint("a", "red")))
				require.NoError(t, server.Create(paint("b", "red")))
				typed, err := client.ForResource[T](server.Config(), configMapResource, "", opts...)
				require.NoError(t, err)
				untyped, err := client.ForType[metav1.Object](server.Config(), configMapResource, example, opts...)
				require.NoError(t, err)
				want, got := store.New(store.ObjectKey[T]), store.New(store.ObjectKey[metav1.Object])
				defer start(t, reflector.New(typed, want, how...))()
				defer start(t, reflector.New(untyped, got, how...))()
				equal := func() {
					t.Helper()
					synctest.Wait()
					assert.NotZero(t, want.Len())
					assert.Equal(t, want.Len(), got.Len())
					for key, w := range want.All() {
						g, _ := got.Get(key)
						assert.Equal(t, any(w), any(g))
					}
				}
				equal()
				require.NoError(t, server.Create(paint("c", "blue")))
				require.NoError(t, server.Update(paint("a", "green")))
				require.NoError(t, server.Delete(paint("b", "red")))
				equal()

				one, err := typed.In("default").Get(t.Context(), "a", metav1.GetOptions{})
				require.NoError(t, err)
				other, err := untyped.In("default").Get(t.Context(), "a", metav1.GetOptions{})
				require.NoError(t, err)
				assert.Equal(t, any(one), any(other))
			})
		})
	}
}

func TestForTypeFindsTheResourceOfTheExample(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	stated := &unstructured.Unstructured{}
	stated.SetGroupVersionKind(kind)
	for name, tc := range map[string]struct {
		example runtime.Object
		opts    []client.ResourceOption
	}{
		"of a built-in type":        {example: &corev1.ConfigMap{}},
		"that states its kind":      {example: stated},
		"of metadata":               {example: &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}},
		"whose kind the caller has": {example: &unstructured.Unstructured{}, opts: []client.ResourceOption{client.WithKind(kind)}},
		"of a scheme":               {example: &corev1.ConfigMap{}, opts: []client.ResourceOption{client.WithScheme(scheme.Scheme)}},
	} {
		t.Run(name, func(t *testing.T) {
			server := reflectortest.Start(t)
			require.NoError(t, server.Create(paint("a", "red")))
			maps, err := client.ForType[metav1.Object](server.Config(), schema.GroupVersionResource{}, tc.example, tc.opts...)
			require.NoError(t, err)
			list, err := maps.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			assert.IsType(t, tc.example, list.Items[0])
			assert.Equal(t, "a", list.Items[0].GetName())
		})
	}
}

// The server sends only metadata, of the kind PartialObjectMetadata.
func TestMetadataStatesTheKindOfTheResource(t *testing.T) {
	example := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	for name, opts := range map[string][]client.ResourceOption{"protobuf": nil, "JSON": {client.WithoutProtobuf()}} {
		for how, asks := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList()}} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					require.NoError(t, server.Create(paint("a", "red")))
					config := server.Config()
					config.Wrap(func(to http.RoundTripper) http.RoundTripper {
						return roundTrip(func(r *http.Request) (*http.Response, error) {
							assert.True(t, r.URL.Path == "/version" || strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"))
							return to.RoundTrip(r)
						})
					})
					metadata, err := client.ForType[metav1.Object](config, configMapResource, example, opts...)
					require.NoError(t, err)
					cache := store.New(store.ObjectKey[metav1.Object])
					defer start(t, reflector.New(metadata, cache, asks...))()
					require.NoError(t, server.Create(paint("b", "red")))
					synctest.Wait()
					assert.Equal(t, 2, cache.Len())
					for _, o := range cache.All() {
						assert.Equal(t, example.TypeMeta, o.(*metav1.PartialObjectMetadata).TypeMeta)
					}
					one, err := metadata.In("default").Get(t.Context(), "a", metav1.GetOptions{})
					require.NoError(t, err)
					assert.Equal(t, example.TypeMeta, one.(*metav1.PartialObjectMetadata).TypeMeta)
				})
			})
		}
	}
}

func TestForTypeRefusesAnExampleOfAnotherType(t *testing.T) {
	deployment := schema.FromAPIVersionAndKind("apps/v1", "Deployment")
	other := &unstructured.Unstructured{}
	other.SetGroupVersionKind(deployment)
	for name, tc := range map[string]struct {
		example runtime.Object
		opts    []client.ResourceOption
		want    error
	}{
		"nothing":                   {nil, nil, client.ErrExample},
		"a list":                    {&corev1.ConfigMapList{}, nil, client.ErrExample},
		"a status":                  {&metav1.Status{}, nil, client.ErrExample},
		"a struct of another group": {&appsv1.Deployment{}, nil, client.ErrExample},
		"an object that says so":    {other, nil, client.ErrExample},
		"the caller says so":        {&unstructured.Unstructured{}, []client.ResourceOption{client.WithKind(deployment)}, client.ErrExample},
		"half a kind":               {&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap"}}, nil, client.ErrNoKind},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.ForType[metav1.Object](localhost(nil), configMapResource, tc.example, tc.opts...)
			require.ErrorIs(t, err, tc.want)
		})
	}
	_, err := client.ForType[*corev1.Secret](localhost(nil), configMapResource, &corev1.ConfigMap{})
	require.ErrorIs(t, err, client.ErrExample)
	_, err = client.ForType[metav1.Object](localhost(nil), schema.GroupVersionResource{}, &unstructured.Unstructured{})
	require.ErrorIs(t, err, client.ErrNoKind)
	_, err = client.ForType[metav1.Object](&rest.Config{Host: "http://%"}, configMapResource, &corev1.ConfigMap{})
	require.Error(t, err)
}

// badObject is a BadPaint that may be an example.
type badObject BadPaint

func (b *badObject) GetObjectKind() schema.ObjectKind { return &b.TypeMeta }

func (b *badObject) DeepCopyObject() runtime.Object { c := *b; return &c }

func TestForTypeNamesTheExamplesTypeInErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		bad, err := client.ForType[metav1.Object](server.Config(), configMapResource, &badObject{})
		require.NoError(t, err)
		_, err = bad.In("default").Get(context.Background(), "a", metav1.GetOptions{})
		var failure *answer.DecodeError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "*reflector_test.badObject", failure.Type)
	})
}

// bare is a client of a fake clientset that does not look like one.
type bare struct{ typedcorev1.ConfigMapInterface }

// playing is a double that answers a watch-list like a watch, or as the server does.
type playing struct {
	bare
	watch func() watch.Interface
}

func (p playing) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return p.watch(), nil
}

// A double that answers a watch-list like a watch is noticed by the watch that it returns.
func TestDoublesWithoutWatchListsAreNoticedAtOnce(t *testing.T) {
	a := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	closing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	for name, test := range map[string]struct {
		watch   func() watch.Interface // of an object tracker if nil
		within  time.Duration
		version string
	}{
		"an object tracker": {nil, 0, ""},
		"a tracker at work": {func() watch.Interface { w := watch.NewRaceFreeFake(); w.Add(a); return w }, 0, ""},
		"a watch in a test": {func() watch.Interface { return watch.NewFake() }, time.Second, ""},
		"a watch-list": {func() watch.Interface {
			w := watch.NewRaceFreeFake()
			w.Add(a)
			w.Action(watch.Bookmark, closing)
			return w
		}, 0, "7"},
		"a slow watch-list": {func() watch.Interface {
			w := watch.NewFakeWithChanSize(2, false)
			time.AfterFunc(500*time.Millisecond, func() { w.Add(a); w.Action(watch.Bookmark, closing) })
			return w
		}, 500 * time.Millisecond, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := bare{fake.NewSimpleClientset(a).CoreV1().ConfigMaps("default")}
				var client reflector.Client[*corev1.ConfigMap, *corev1.ConfigMapList] = from
				if test.watch != nil {
					client = playing{from, test.watch}
				}
				s := store.New(store.ObjectKey[*corev1.ConfigMap])
				r := reflector.New(client, s, reflector.WithErrorHandler(func(_ context.Context, err error) { assert.NoError(t, err) }))
				ctx, cancel := context.WithCancel(t.Context())
				result := make(chan error, 1)
				began := time.Now()
				go func() { result <- r.Run(ctx) }()
				<-r.Synced()
				assert.Equal(t, test.within, time.Since(began))
				assert.Equal(t, 1, s.Len())
				if test.version != "" {
					assert.Equal(t, test.version, s.ResourceVersion())
					assert.NoError(t, r.State().WatchListErr)
				} else {
					assert.ErrorContains(t, r.State().WatchListErr, "test double")
				}
				cancel()
				require.NoError(t, <-result)
			})
		})
	}
}

// A test may keep one watch for all requests, which must not be stopped and loses no event.
func TestWatchOfADoubleSurvivesTheRefusalOfAWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		w := watch.NewFake()
		client := playing{bare{fake.NewSimpleClientset(a).CoreV1().ConfigMaps("default")}, func() watch.Interface { return w }}
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New[*corev1.ConfigMap, *corev1.ConfigMapList](client, s)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- r.Run(ctx) }()
		w.Add(paint("b", "green"))
		<-r.Synced()
		w.Add(paint("c", "blue"))
		synctest.Wait()
		assert.Equal(t, 3, s.Len())
		cancel()
		require.NoError(t, <-result)
		assert.True(t, w.IsStopped())
	})
}

// growing is a double whose lists have higher and higher versions.
type growing struct {
	playing
	version *atomic.Int64
}

func (g growing) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	list, err := g.playing.List(ctx, opts)
	if err == nil {
		list.ResourceVersion = strconv.FormatInt(g.version.Add(1), 10)
	}
	return list, err
}

// CatchUp must neither take the events of the one watch that a test keeps, nor stop it.
func TestCatchUpLeavesTheWatchOfADoubleAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch.NewFake()
		from := playing{bare{fake.NewSimpleClientset().CoreV1().ConfigMaps("default")}, func() watch.Interface { return w }}
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New[*corev1.ConfigMap, *corev1.ConfigMapList](growing{from, new(atomic.Int64)}, s)
		ctx, cancel := context.WithCancel(t.Context())
		result, caughtUp := make(chan error, 1), make(chan error, 1)
		go func() { caughtUp <- r.CatchUp(ctx, time.Now().Add(time.Hour)) }()
		go func() { result <- r.Run(ctx) }()
		require.NoError(t, <-caughtUp)
		w.Add(paint("a", "green"))
		synctest.Wait()
		assert.Equal(t, 1, s.Len())
		cancel()
		require.NoError(t, <-result)
	})
}
