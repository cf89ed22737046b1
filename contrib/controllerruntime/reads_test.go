package controllerruntime

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// indexedPods starts a cache with pods and an index of them.
func indexedPods(t *testing.T, opts cache.Options) *readCache {
	t.Helper()
	c := started(t, newServer(t).Config(), opts).(*readCache)
	require.NoError(t, c.IndexField(t.Context(), &corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
		return []string{object.(*corev1.Pod).Spec.NodeName}
	}))
	return c
}

// direct reports whether the cache reads the type of an object or a list itself.
func (c *readCache) direct(out runtime.Object) bool {
	r := c.readers.of(out)
	return r != nil && r.ready()
}

func TestReadsReturnWhatControllerRuntimeReturns(t *testing.T) {
	c := indexedPods(t, cache.Options{})
	for name, opts := range map[string][]client.ListOption{
		"all":                      nil,
		"a namespace":              {client.InNamespace("a")},
		"a namespace without pods": {client.InNamespace("none")},
		"labels":                   {client.MatchingLabels{"app": "web"}},
		"other labels":             {client.MatchingLabels{"app": "other"}},
		"a field":                  {client.MatchingFields{"spec.nodeName": "node"}},
		"a field in a namespace":   {client.MatchingFields{"spec.nodeName": "node"}, client.InNamespace("b"), client.MatchingLabels{"app": "web"}},
		"another value":            {client.MatchingFields{"spec.nodeName": "other"}},
		"two fields":               {client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie("spec.nodeName=node,spec.nodeName==node")}},
		"not a field":              {client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie("spec.nodeName!=node")}},
		"no index":                 {client.MatchingFields{"spec.hostname": "node"}},
		"a continue token":         {client.Continue("token")},
		"shared":                   {client.UnsafeDisableDeepCopy},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want corev1.PodList
			err := c.Cache.List(t.Context(), &want, opts...)
			assert.Equal(t, err, c.List(t.Context(), &got, opts...))
			for _, list := range []*corev1.PodList{&got, &want} {
				slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
					return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
				})
			}
			assert.Equal(t, want, got)
		})
	}
	require.True(t, c.direct(&corev1.PodList{}))
	var pods corev1.PodList
	assert.ErrorContains(t, c.List(t.Context(), &pods, client.MatchingFields{"spec.hostname": "node"}), `index "field:spec.hostname": there is no such index: add it by AddIndexers of the same Indexer, or in controller-runtime by IndexField`)
	require.NoError(t, c.List(t.Context(), &pods, client.Limit(2)))
	assert.Len(t, pods.Items, 2)
}

func TestGetReturnsWhatControllerRuntimeReturns(t *testing.T) {
	c := indexedPods(t, cache.Options{})
	get := func(out func() client.Object, namespace, name string, opts ...client.GetOption) {
		t.Helper()
		key := client.ObjectKey{Namespace: namespace, Name: name}
		got, want := out(), out()
		err := c.Cache.Get(t.Context(), key, want, opts...)
		assert.Equal(t, err, c.Get(t.Context(), key, got, opts...))
		assert.Equal(t, want, got)
	}
	pod := func() client.Object { return &corev1.Pod{} }
	node := func() client.Object { return &corev1.Node{} }
	get(pod, "a", "one")
	get(pod, "a", "one", client.UnsafeDisableDeepCopy)
	get(pod, "a", "none")
	get(pod, "", "one")
	get(node, "", "node")
	get(node, "a", "node") // a node has no namespace
	for _, out := range []client.Object{pod(), node()} {
		assert.True(t, c.direct(out), "%T", out)
	}
}

func TestReadsShareObjectsOnRequest(t *testing.T) {
	for name, shared := range map[string]struct {
		opts cache.Options
		get  []client.GetOption
		list []client.ListOption
	}{
		"option of a call": {cache.Options{}, []client.GetOption{client.UnsafeDisableDeepCopy}, []client.ListOption{client.UnsafeDisableDeepCopy}},
		"default":          {cache.Options{DefaultUnsafeDisableDeepCopy: new(true)}, nil, nil},
		"option of a kind": {cache.Options{
			ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: new(true)}},
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := indexedPods(t, shared.opts)
			var list, again corev1.PodList
			require.NoError(t, c.List(t.Context(), &list, shared.list...))
			require.True(t, c.direct(&list))
			require.NoError(t, c.List(t.Context(), &again, shared.list...))
			var got corev1.Pod
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(&list.Items[0]), &got, shared.get...))
			assert.Same(t, &list.Items[0].Spec.Containers[0], &again.Items[0].Spec.Containers[0])
			assert.Same(t, &list.Items[0].Spec.Containers[0], &got.Spec.Containers[0])
		})
	}
	t.Run("not for a kind", func(t *testing.T) {
		c := indexedPods(t, cache.Options{
			DefaultUnsafeDisableDeepCopy: new(true),
			ByObject:                     map[client.Object]cache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: new(false)}},
		})
		var list, again corev1.PodList
		require.NoError(t, c.List(t.Context(), &list))
		require.True(t, c.direct(&list))
		require.NoError(t, c.List(t.Context(), &again))
		assert.NotSame(t, &list.Items[0].Spec.Containers[0], &again.Items[0].Spec.Containers[0])
	})
}

// The caller may change the maps of the options once the cache exists.
func TestReadersKeepTheirOptions(t *testing.T) {
	share := true
	opts := cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: &share}}}
	c := started(t, newServer(t).Config(), opts).(*readCache)
	share = false
	clear(opts.ByObject)
	var list, again corev1.PodList
	require.NoError(t, c.List(t.Context(), &list))
	require.True(t, c.direct(&list))
	for _, each := range []*corev1.PodList{&list, &again} {
		require.NoError(t, c.List(t.Context(), each))
	}
	assert.Same(t, &list.Items[0].Spec.Containers[0], &again.Items[0].Spec.Containers[0])
}

// A type without DeepCopyInto is copied by DeepCopyObject, though it has the method of its metadata.
func TestReadsCopyTypesWithoutGeneratedCode(t *testing.T) {
	c := started(t, siteServer(t).Config(), cache.Options{Scheme: siteScheme()}).(*readCache)
	var sites siteList
	require.NoError(t, c.List(t.Context(), &sites))
	require.True(t, c.direct(&sites))
	require.NoError(t, c.List(t.Context(), &sites))
	require.Len(t, sites.Items, siteCount)
	sites.Items[0].Labels["app"] = "changed"
	var got site
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(&sites.Items[0]), &got))
	assert.Equal(t, map[string]string{"app": "web"}, got.Labels)
	assert.Equal(t, siteKind, got.GroupVersionKind())
	assert.Equal(t, "web:1", got.Spec.Image)
}

// sparseSite is a site whose DeepCopyInto copies only the fields that are set.
type sparseSite struct{ site }

func (s *sparseSite) DeepCopyInto(out *sparseSite) {
	out.Name, out.Namespace = s.Name, s.Namespace
	if s.Annotations != nil {
		out.Annotations = maps.Clone(s.Annotations)
	}
}

func (s *sparseSite) DeepCopyObject() runtime.Object {
	out := &sparseSite{}
	s.DeepCopyInto(out)
	return out
}

func TestGetReplacesTheWholeObject(t *testing.T) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(siteKind, &sparseSite{})
	scheme.AddKnownTypeWithName(siteKind.GroupVersion().WithKind("SiteList"), &siteList{})
	metav1.AddToGroupVersion(scheme, siteKind.GroupVersion())
	c := started(t, siteServer(t).Config(), cache.Options{Scheme: scheme}).(*readCache)
	key := client.ObjectKey{Namespace: "a", Name: "site-0"}
	require.NoError(t, c.Get(t.Context(), key, &sparseSite{}))
	used := &sparseSite{}
	used.Annotations = map[string]string{"of": "another"}
	require.True(t, c.direct(used))
	require.NoError(t, c.Get(t.Context(), key, used))
	assert.Equal(t, "site-0", used.Name)
	assert.Empty(t, used.Annotations)
}

// A handler may refresh the object that it was given, which is the one in the cache.
func TestGetIntoTheCachedObjectKeepsIt(t *testing.T) {
	c := started(t, newServer(t).Config(), cache.Options{}).(*readCache)
	informer, err := c.GetInformer(t.Context(), &corev1.Node{})
	require.NoError(t, err)
	given := make(chan *corev1.Node, 1)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) { given <- object.(*corev1.Node) }})
	require.NoError(t, err)
	cached := <-given
	require.True(t, c.direct(cached))
	for _, opts := range [][]client.GetOption{nil, {client.UnsafeDisableDeepCopy}} {
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "node"}, cached, opts...))
		assert.Equal(t, "node", cached.Name)
		var again corev1.Node
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "node"}, &again))
		assert.Equal(t, "node", again.Name)
	}
}

func TestReadsThatTheEmbeddedCacheServes(t *testing.T) {
	t.Run("the kind is in the object", func(t *testing.T) {
		c := started(t, newServer(t).Config(), cache.Options{}).(*readCache)
		for _, out := range []client.Object{&unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}} {
			out.GetObjectKind().SetGroupVersionKind(podKind)
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, out))
			assert.False(t, c.direct(out), "%T", out)
		}
	})
	t.Run("several informers", func(t *testing.T) {
		for name, opts := range map[string]cache.Options{
			"namespaces": {DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}},
			"namespaces of a kind": {ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Namespaces: map[string]cache.Config{"a": {}, "b": {}}},
			}},
		} {
			c := started(t, newServer(t).Config(), opts).(*readCache)
			var pods corev1.PodList
			require.NoError(t, c.List(t.Context(), &pods), name)
			assert.Len(t, pods.Items, 3, name)
			assert.False(t, c.direct(&pods), name)
		}
	})
	t.Run("a transform changes the type", func(t *testing.T) {
		c := started(t, newServer(t).Config(), cache.Options{DefaultTransform: func(in any) (any, error) {
			return &metav1.PartialObjectMetadata{ObjectMeta: in.(*corev1.Pod).ObjectMeta}, nil
		}}).(*readCache)
		key := client.ObjectKey{Namespace: "a", Name: "one"}
		require.Error(t, c.Get(t.Context(), key, &corev1.Pod{}))
		assert.ErrorContains(t, c.Get(t.Context(), key, &corev1.Pod{}), "cache had type *v1.PartialObjectMetadata")
	})
}

func TestReadsAfterRemoveInformer(t *testing.T) {
	c := started(t, newServer(t).Config(), cache.Options{ReaderFailOnMissingInformer: true}).(*readCache)
	key := client.ObjectKey{Namespace: "a", Name: "one"}
	for range 2 {
		assert.ErrorAs(t, c.Get(t.Context(), key, &corev1.Pod{}), new(*cache.ErrResourceNotCached))
		_, err := c.GetInformer(t.Context(), &corev1.Pod{})
		require.NoError(t, err)
		require.NoError(t, c.Get(t.Context(), key, &corev1.Pod{}))
		require.True(t, c.direct(&corev1.Pod{}))
		require.True(t, c.direct(&corev1.PodList{}))
		require.NoError(t, c.RemoveInformer(t.Context(), &corev1.Pod{}))
		assert.ErrorAs(t, c.List(t.Context(), &corev1.PodList{}), new(*cache.ErrResourceNotCached))
	}
	require.NoError(t, c.RemoveInformer(t.Context(), &corev1.Node{}), "there is none")
}

// An informer can be stopped though its reader is still there: see reader.ready.
func TestStoppedInformersAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := started(t, newServer(t).Config(), cache.Options{ReaderFailOnMissingInformer: true}).(*readCache)
		_, err := c.GetInformer(t.Context(), &corev1.Pod{})
		require.NoError(t, err)
		require.True(t, c.direct(&corev1.Pod{}))
		require.NoError(t, c.Cache.RemoveInformer(t.Context(), &corev1.Pod{}), "without the reader")
		synctest.Wait()
		key := client.ObjectKey{Namespace: "a", Name: "one"}
		assert.ErrorAs(t, c.Get(t.Context(), key, &corev1.Pod{}), new(*cache.ErrResourceNotCached))
		assert.ErrorAs(t, c.List(t.Context(), &corev1.PodList{}), new(*cache.ErrResourceNotCached))
		_, err = c.GetInformer(t.Context(), &corev1.Pod{})
		require.NoError(t, err)
		assert.True(t, c.direct(&corev1.PodList{}), "the next informer has a reader")
	})
}

func TestReadsBeforeTheStart(t *testing.T) {
	c, err := NewCache(newServer(t).Config(), cache.Options{Mapper: mapper()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	require.NoError(t, err)
	assert.ErrorAs(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.Pod{}), new(*cache.ErrCacheNotStarted))
	assert.ErrorAs(t, c.List(t.Context(), &corev1.PodList{}), new(*cache.ErrCacheNotStarted))
}

func TestManagersTreatTheCacheLikeControllerRuntimes(t *testing.T) {
	for name, opts := range map[string]cache.Options{
		"one":     {Mapper: mapper()},
		"several": {Mapper: mapper(), ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {}}},
	} {
		server := newServer(t)
		stock, err := cache.New(server.Config(), opts)
		require.NoError(t, err)
		want := true
		if runnable, ok := stock.(manager.LeaderElectionRunnable); ok {
			want = runnable.NeedLeaderElection()
		}
		c, err := NewCache(server.Config(), opts)
		require.NoError(t, err)
		assert.Equal(t, want, c.(*readCache).NeedLeaderElection(), name)
		c, err = Options{ByReference: map[client.Object]Reference{&corev1.Secret{}: {}}}.NewCache(server.Config(), opts)
		require.NoError(t, err)
		assert.Equal(t, want, c.(*referringCache).NeedLeaderElection(), name)
	}
}
