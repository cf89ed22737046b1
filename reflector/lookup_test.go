package reflector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
)

// looker is a reflector of any type.
type looker interface {
	Lookup(ctx context.Context, key store.Key) (types.UID, bool, error)
}

func lookerOf[T Object, L any](c Client[T, L], opts ...Option) looker {
	return New(c, store.New(store.ObjectKey[T]), opts...)
}

// wrapper hides the type of a client, and with it how to get objects of a namespace.
type wrapper struct{ typedcorev1.ConfigMapInterface }

func TestLookup(t *testing.T) {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	dynamics, err := dynamic.NewForConfig(server.Config())
	require.NoError(t, err)
	metas, err := metadata.NewForConfig(server.Config())
	require.NoError(t, err)
	ofKind, err := client.For[*corev1.ConfigMap](server.Config())
	require.NoError(t, err)
	ofResource, err := client.ForResource[*corev1.ConfigMap](server.Config(), maps, "")
	require.NoError(t, err)
	a := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}
	require.NoError(t, server.Create(a))
	require.NoError(t, server.Get(a))
	fakes := fake.NewClientset(a.DeepCopy()).CoreV1()

	all, one := clientset.CoreV1().ConfigMaps(""), clientset.CoreV1().ConfigMaps("ns")
	for name, c := range map[string]struct {
		looker
		gets, lists int // of the server, for the object that there is
	}{
		"a generated client":                {lookerOf(all), 1, 0},
		"a generated client of a namespace": {lookerOf(one), 1, 0},
		"a Resource of a kind":              {lookerOf(ofKind), 1, 0},
		"a Resource":                        {lookerOf(ofResource), 1, 0},
		"a Resource of a namespace":         {lookerOf(ofResource.In("ns")), 1, 0},
		"a dynamic client":                  {lookerOf(client.Dynamic(dynamics.Resource(maps))), 1, 0},
		"a dynamic client of a namespace":   {lookerOf(client.Dynamic(dynamics.Resource(maps).Namespace("ns"))), 1, 0},
		"a metadata client":                 {lookerOf(client.Metadata(metas.Resource(maps))), 1, 0},
		"a client without Get":              {lookerOf(client.ListWatch[*corev1.ConfigMap](all)), 0, 1},
		"a wrapper":                         {lookerOf(wrapper{all}), 1, 1},
		"a wrapper of a namespace":          {lookerOf(wrapper{one}), 1, 0},
		"a selector":                        {lookerOf(all, WithLabelSelector(labels.SelectorFromSet(labels.Set{"app": "x"}))), 1, 0},
		"a fake client":                     {lookerOf(fakes.ConfigMaps("")), 0, 0},
		"a fake client of a namespace":      {lookerOf(fakes.ConfigMaps("ns")), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ofMaps := reflectortest.ForResource("configmaps")
			server.ForgetRequests()
			uid, exists, err := c.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "a"})
			require.NoError(t, err)
			assert.True(t, exists)
			assert.Equal(t, a.UID, uid)
			assert.LessOrEqual(t, len(server.Requests(reflectortest.Verb("get"), ofMaps)), c.gets)
			assert.Len(t, server.Requests(reflectortest.Verb("list"), ofMaps), c.lists)

			uid, exists, err = c.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "b"})
			require.NoError(t, err)
			assert.False(t, exists)
			assert.Empty(t, uid)
			if name == "a fake client" || name == "a fake client of a namespace" {
				return
			}
			for code, is := range map[int]func(error) bool{403: apierrors.IsForbidden, 500: apierrors.IsInternalError} {
				broken := server.Inject(reflectortest.Answer(code).On("", "configmaps"))
				_, _, err = c.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "a"})
				assert.True(t, is(err), err)
				assert.ErrorContains(t, err, "looks up ns/a")
				broken.Remove()
			}
			broken := server.Inject(reflectortest.AnswerHTML(404).On("", "configmaps"))
			_, _, err = c.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "a"})
			assert.Error(t, err, "of something else than an API server")
			broken.Remove()
		})
	}
}

func TestLookupOfObjectsWithoutNamespaces(t *testing.T) {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	require.NoError(t, server.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
	for name, want := range map[string]bool{"a": true, "b": false} {
		_, exists, err := lookerOf(clientset.CoreV1().Nodes()).Lookup(t.Context(), store.Key{Name: name})
		require.NoError(t, err)
		assert.Equal(t, want, exists)
	}
}

func TestResourceThatIsNotServedIsNoProof(t *testing.T) {
	server := reflectortest.Start(t)
	dynamics, err := dynamic.NewForConfig(server.Config())
	require.NoError(t, err)
	foos := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
	for name, of := range map[string]looker{
		"dynamic": lookerOf(client.Dynamic(dynamics.Resource(foos))),
		"Resource": func() looker {
			r, err := client.ForResource[*metav1.PartialObjectMetadata](server.Config(), foos, "")
			require.NoError(t, err)
			return lookerOf(r)
		}(),
	} {
		_, _, err := of.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "a"})
		assert.Error(t, err, name)
	}
}

// lister is a client that hides everything but its lists and watches.
type lister struct {
	of typedcorev1.ConfigMapInterface
}

func (l lister) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return l.of.List(ctx, opts)
}

func (l lister) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return l.of.Watch(ctx, opts)
}

// A client that hides its namespace may be of another one, in which a list of the object is empty.
func TestClientThatHidesItsNamespaceProvesNothingOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		for _, key := range []store.Key{{Namespace: "ns", Name: "a"}, {Namespace: "other", Name: "x"}} {
			require.NoError(t, server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
		}
		missing, there := store.Key{Namespace: "ns", Name: "b"}, store.Key{Namespace: "other", Name: "x"}
		for name, of := range map[string]func(namespace string) *KubernetesResourceReflector[*corev1.ConfigMap]{
			"a wrapper": func(namespace string) *KubernetesResourceReflector[*corev1.ConfigMap] {
				return New(wrapper{clientset.CoreV1().ConfigMaps(namespace)}, store.New(store.ObjectKey[*corev1.ConfigMap]))
			},
			"no Get": func(namespace string) *KubernetesResourceReflector[*corev1.ConfigMap] {
				return New(client.ListWatch[*corev1.ConfigMap](lister{clientset.CoreV1().ConfigMaps(namespace)}), store.New(store.ObjectKey[*corev1.ConfigMap]))
			},
		} {
			r := of("ns")
			assert.False(t, r.Covers(missing), name)
			assert.True(t, r.Covers(store.Key{Name: "b"}), "%s: there is no namespace to hide", name)
			for _, key := range []store.Key{missing, there} {
				_, _, err := r.Lookup(t.Context(), key)
				assert.ErrorContains(t, err, "hides its namespace", "%s: %s", name, key)
			}
			stop := running(t, r)
			<-r.Synced()
			_, exists, err := r.Lookup(t.Context(), missing)
			require.NoError(t, err, name)
			assert.False(t, exists, "%s: the client has shown an object of the namespace", name)
			assert.True(t, r.Covers(missing), name)
			assert.False(t, r.Covers(there), name)
			_, _, err = r.Lookup(t.Context(), there)
			assert.ErrorContains(t, err, "hides its namespace", name)
			require.NoError(t, stop())

			r = of("")
			stop = running(t, r)
			<-r.Synced()
			for key, want := range map[store.Key]bool{{Namespace: "ns", Name: "a"}: true, missing: false, there: true} {
				_, exists, err := r.Lookup(t.Context(), key)
				require.NoError(t, err, name)
				assert.Equal(t, want, exists, "%s: %s", name, key)
				assert.True(t, r.Covers(key), name)
			}
			third := store.Key{Namespace: "third", Name: "a"}
			assert.False(t, r.Covers(third), "%s: it may be a client of the two namespaces that it has shown", name)
			if _, _, err = r.Lookup(t.Context(), third); name == "no Get" {
				assert.ErrorContains(t, err, "hides its namespace")
			}
			require.NoError(t, stop())
		}
		first := New(wrapper{clientset.CoreV1().ConfigMaps("")}, store.New(store.ObjectKey[*corev1.ConfigMap]))
		_, exists, err := first.Lookup(t.Context(), store.Key{Namespace: "third", Name: "a"})
		require.NoError(t, err, "a Get without a namespace reveals that the client is of all namespaces")
		assert.False(t, exists)
		_, _, err = New(wrapper{clientset.CoreV1().ConfigMaps("ns")}, store.New(store.ObjectKey[*corev1.ConfigMap])).Lookup(t.Context(), store.Key{Namespace: "other", Name: "a"})
		assert.ErrorIs(t, err, store.ErrOutOfScope, "a Get that finds an object of another namespace reveals that the client is of one")
	})
}

// starting is a client of a server that does not serve the resource yet when it is asked for the first object.
type starting struct {
	wrapper
	asked *int
}

func (s starting) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error) {
	if *s.asked++; *s.asked == 1 {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{Resource: "configmaps"}, name, "", 0, true)
	}
	return s.wrapper.Get(ctx, name, opts)
}

// A server answers in the same way if it does not serve a resource, and if a request lacks a namespace.
func TestResourceThatIsServedMeanwhileIsNoProof(t *testing.T) {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	key := store.Key{Namespace: "ns", Name: "a"}
	require.NoError(t, server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	for namespace, want := range map[string]string{"other": "hides its namespace", "": "", "ns": ""} {
		of := lookerOf(starting{wrapper{clientset.CoreV1().ConfigMaps(namespace)}, new(int)})
		_, exists, err := of.Lookup(t.Context(), key)
		if want != "" {
			assert.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		assert.True(t, exists, namespace)
	}
}

// replacing lists as cache.NewListWatchFromClient does, which replaces the field selector.
type replacing struct{ lister }

func (r replacing) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	opts.FieldSelector = ""
	return r.lister.List(ctx, opts)
}

// An object is looked up in a list of one object, also if the client lists all of them instead.
func TestLookupOfAClientThatReplacesFieldSelectorsListsNoneOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		for n := range 10 {
			require.NoError(t, server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("a", n)}}))
		}
		of := client.ListWatch[*corev1.ConfigMap](replacing{lister{clientset.CoreV1().ConfigMaps("")}})
		r := New(of, store.New(store.ObjectKey[*corev1.ConfigMap]))
		_, exists, err := r.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "a0"})
		require.NoError(t, err)
		assert.True(t, exists)
		_, _, err = r.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "a5"})
		assert.ErrorContains(t, err, "hides its namespace, or selects by itself")
		assert.Len(t, server.Requests(), 2)
	})
}

func TestNamespacesOfObjectsAreNotedWithoutAllocations(t *testing.T) {
	var n namespaces
	namespace := "ns"
	n.add(namespace)
	assert.Zero(t, testing.AllocsPerRun(10, func() { n.add(namespace) }))
	n.add("other")
	assert.Zero(t, testing.AllocsPerRun(10, func() { n.add(namespace) }))
	assert.True(t, n.has(namespace) && n.has("other"))
	assert.False(t, n.has("third"))
}

func TestNotedNamespacesAreTheLastOnes(t *testing.T) {
	var n namespaces
	for i := range 3 * maxNamespaces {
		n.add(fmt.Sprint("n", i))
		n.add("busy")
		require.True(t, n.has("busy"))
	}
	for i := range maxNamespaces - 1 {
		require.True(t, n.has(fmt.Sprint("n", 3*maxNamespaces-1-i)))
	}
	assert.False(t, n.has("n0"))
	assert.LessOrEqual(t, len(n.recent)+len(n.earlier), 2*maxNamespaces)
}

func TestNamespacesOfClients(t *testing.T) {
	server := reflectortest.Start(t)
	config := server.Config()
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	dynamics, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	metas, err := metadata.NewForConfig(config)
	require.NoError(t, err)
	ofResource, err := client.ForResource[*corev1.ConfigMap](config, maps, "")
	require.NoError(t, err)
	for name, of := range map[string]func(namespace string) coverer{
		"generated": func(ns string) coverer { return covererOf(clientset.CoreV1().ConfigMaps(ns)) },
		"fake":      func(ns string) coverer { return covererOf(fake.NewClientset().CoreV1().ConfigMaps(ns)) },
		"Resource":  func(ns string) coverer { return covererOf(ofResource.In(ns)) },
		"with Resource": func(ns string) coverer {
			return covererOf(struct {
				*client.Resource[*corev1.ConfigMap]
			}{ofResource.In(ns)})
		},
		"ListWatch": func(ns string) coverer {
			return covererOf(client.ListWatch[*corev1.ConfigMap](clientset.CoreV1().ConfigMaps(ns)))
		},
		"dynamic":  func(ns string) coverer { return covererOf(client.Dynamic(dynamics.Resource(maps).Namespace(ns))) },
		"metadata": func(ns string) coverer { return covererOf(client.Metadata(metas.Resource(maps).Namespace(ns))) },
		"dynamic, fake": func(ns string) coverer {
			return covererOf(client.Dynamic(dynamicfake.NewSimpleDynamicClient(scheme.Scheme).Resource(maps).Namespace(ns)))
		},
		"metadata, fake": func(ns string) coverer {
			return covererOf(client.Metadata(metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()).Resource(maps).Namespace(ns)))
		},
	} {
		here, there := store.Key{Namespace: "ns", Name: "a"}, store.Key{Namespace: "other", Name: "a"}
		assert.True(t, of("").Covers(here), name)
		assert.True(t, of("ns").Covers(here), name)
		assert.False(t, of("ns").Covers(there), name)
		_, _, err = of("ns").Lookup(t.Context(), there)
		assert.ErrorIs(t, err, store.ErrOutOfScope, name)
	}
	hidden := struct{ dynamic.ResourceInterface }{dynamics.Resource(maps)}
	assert.False(t, covererOf(client.Dynamic(hidden)).Covers(store.Key{Namespace: "ns", Name: "a"}), "a wrapper")
	require.NoError(t, server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}))
	wrapper := covererOf(client.Dynamic(struct {
		dynamic.NamespaceableResourceInterface
	}{dynamics.Resource(maps)}))
	_, exists, err := wrapper.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "a"})
	require.NoError(t, err)
	assert.True(t, exists)
	assert.False(t, wrapper.Covers(store.Key{Namespace: "ns", Name: "b"}), "its lists may be of other namespaces")
	with := lookerOf(struct {
		*client.Resource[*corev1.ConfigMap]
	}{ofResource})
	_, exists, err = with.Lookup(t.Context(), store.Key{Namespace: "ns", Name: "b"})
	require.NoError(t, err, "Get of all namespaces cannot name one")
	assert.False(t, exists)
}

// coverer is a reflector of any type.
type coverer interface {
	looker
	Covers(key store.Key) bool
}

func covererOf[T Object, L any](c Client[T, L]) coverer {
	return New(c, store.New(store.ObjectKey[T]))
}

var maps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestCovers(t *testing.T) {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	here, there := store.Key{Namespace: "ns", Name: "a"}, store.Key{Namespace: "other", Name: "a"}
	of := func(namespace string, opts ...Option) *KubernetesResourceReflector[*corev1.ConfigMap] {
		return New(clientset.CoreV1().ConfigMaps(namespace), store.New(store.ObjectKey[*corev1.ConfigMap]), opts...)
	}
	assert.True(t, of("").Covers(here))
	assert.True(t, of("ns").Covers(here))
	assert.False(t, of("ns").Covers(there))
	assert.False(t, of("", WithLabelSelector(labels.SelectorFromSet(labels.Set{"app": "x"}))).Covers(here))
	assert.True(t, of("", WithLabelSelector(labels.Everything())).Covers(here))
	assert.False(t, of("", WithFieldSelector(fields.OneTermEqualSelector("metadata.name", "a"))).Covers(here))
	assert.False(t, of("", WithShard(store.Shards(store.ByUID, 2)[0])).Covers(here))

	_, _, err = of("ns").Lookup(t.Context(), there)
	assert.ErrorIs(t, err, store.ErrOutOfScope)
	_, _, err = lookerOf[*corev1.ConfigMap, *corev1.ConfigMapList](nil).Lookup(t.Context(), here)
	assert.True(t, errors.Is(err, ErrNoClient), err)
}
