package reflector

import (
	"context"
	"errors"
	"testing"

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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
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
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
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
