package reflector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// placed returns a ConfigMap of one of some namespaces.
func placed(n int) *corev1.ConfigMap {
	object := paint(fmt.Sprint("c-", n), "red")
	object.Namespace = fmt.Sprint("space-", n%7, "-of-7")
	return object
}

// team has a reflector for each shard, and their stores.
type team[T reflector.Object] struct {
	all    []store.Shard
	stores []*store.Cache[T]
	own    []*reflector.KubernetesResourceReflector[T]
	stops  []func()

	sharding reflector.Sharding // that their State must have
}

// join starts the reflector of a shard.
func join[T reflector.Object, L any](t *testing.T, m *team[T], resource reflector.Client[T, L], shard store.Shard, opts ...reflector.Option) {
	s := store.New(store.ObjectKey[T])
	r := reflector.New(resource, s, append(opts, reflector.WithShard(shard))...)
	m.stores, m.own, m.stops = append(m.stores, s), append(m.own, r), append(m.stops, start(t, r))
}

func (m *team[T]) stop() {
	for _, stop := range m.stops {
		stop()
	}
}

// compare holds what they have between them to the server.
func (m *team[T]) compare(t *testing.T, server *reflectortest.Server, when string) {
	t.Helper()
	synctest.Wait()
	want, got := map[types.UID]string{}, map[types.UID]string{}
	objects, err := reflectortest.List[*corev1.ConfigMap](server, "")
	require.NoError(t, err)
	for _, o := range objects {
		want[o.UID] = o.ResourceVersion
	}
	for i, s := range m.stores {
		for key, o := range s.All() {
			assert.NotContains(t, got, o.GetUID(), "%s: %v is in two shards", when, key)
			got[o.GetUID()] = o.GetResourceVersion()
			value := map[store.ShardKey]string{store.ByUID: string(o.GetUID()), store.ByNamespace: key.Namespace}[m.all[i].By]
			assert.True(t, m.all[i].Contains(store.ShardHash(value)), when)
		}
		assert.Equal(t, m.sharding, m.own[i].State().Sharding, "%s: shard %d", when, i)
		assert.NoError(t, m.own[i].State().Err, "%s: shard %d", when, i)
		if m.sharding == reflector.ShardedByClient {
			assert.Equal(t, fmt.Sprint(server.ResourceVersion()), s.ResourceVersion(), "%s: what happens to others counts", when)
		}
	}
	assert.Equal(t, want, got, when)
}

// change changes some objects, and adds others.
func change(t *testing.T, server *reflectortest.Server, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		switch object := placed(n); n % 4 {
		case 0:
			require.NoError(t, server.Delete(object))
		case 1:
			require.NoError(t, server.Delete(object))
			require.NoError(t, server.Create(object), "with another UID")
		case 2:
			object.Data["color"] = "green"
			require.NoError(t, server.Update(object))
		}
		require.NoError(t, server.Create(placed(1000+n)))
	}
}

// shards runs a reflector for each shard through the life of some objects, and compares
// what they hold between them with the server.
func shards[T reflector.Object, L any](t *testing.T, server *reflectortest.Server, resource func() reflector.Client[T, L], by store.ShardKey, want reflector.Sharding, opts []reflector.Option) {
	m := &team[T]{all: store.Shards(by, 3), sharding: want}
	defer m.stop()
	for _, shard := range m.all {
		join(t, m, resource(), shard, opts...)
	}
	m.compare(t, server, "at first")
	for i, s := range m.stores {
		assert.NotZero(t, s.Len(), "shard %d", i)
	}
	change(t, server, 0, 60)
	m.compare(t, server, "after changes")
}

func TestShardsOfEveryKindOfClient(t *testing.T) {
	type how struct {
		by     store.ShardKey
		server bool
		opts   []reflector.Option
	}
	for name, run := range map[string]func(*testing.T, *reflectortest.Server, how, reflector.Sharding){
		"typed": func(t *testing.T, server *reflectortest.Server, h how, want reflector.Sharding) {
			resource := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("")
			shards(t, server, func() reflector.Client[*corev1.ConfigMap, *corev1.ConfigMapList] { return resource }, h.by, want, h.opts)
		},
		"dynamic": func(t *testing.T, server *reflectortest.Server, h how, want reflector.Sharding) {
			resource := dynamic.NewForConfigOrDie(server.Config()).Resource(configMapResource)
			shards(t, server, func() reflector.Client[*unstructured.Unstructured, *unstructured.UnstructuredList] {
				return client.Dynamic(resource)
			}, h.by, want, h.opts)
		},
		"metadata": func(t *testing.T, server *reflectortest.Server, h how, want reflector.Sharding) {
			resource := metadata.NewForConfigOrDie(server.Config()).Resource(configMapResource)
			shards(t, server, func() reflector.Client[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList] {
				return client.Metadata(resource)
			}, h.by, want, h.opts)
		},
		"JSON": func(t *testing.T, server *reflectortest.Server, h how, want reflector.Sharding) {
			shards(t, server, func() reflector.Client[*Paint, *client.ResourceList[*Paint]] {
				resource, err := client.ForResource[*Paint](server.Config(), configMapResource, "")
				require.NoError(t, err)
				return resource
			}, h.by, want, h.opts)
		},
		"protobuf": func(t *testing.T, server *reflectortest.Server, h how, want reflector.Sharding) {
			shards(t, server, func() reflector.Client[*corev1.ConfigMap, *client.ResourceList[*corev1.ConfigMap]] {
				resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "")
				require.NoError(t, err)
				return resource
			}, h.by, want, h.opts)
		},
	} {
		for _, by := range []store.ShardKey{store.ByUID, store.ByNamespace} {
			for _, on := range []bool{true, false} {
				for way, opts := range map[string][]reflector.Option{
					"watch-lists": nil, "lists": {reflector.WithoutWatchList()}, "pages": {reflector.WithoutWatchList(), reflector.WithPageSize(7)},
				} {
					t.Run(fmt.Sprintf("%s/%v/%s, gate %t", name, by, way, on), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							server := reflectortest.Start(t)
							server.SetSharding(on)
							for n := range 60 {
								require.NoError(t, server.Create(placed(n)))
							}
							want := reflector.ShardedByClient
							if on {
								want = reflector.ShardedByServer
							}
							run(t, server, how{by, on, opts}, want)
						})
					})
				}
			}
		}
	}
}

func half(by store.ShardKey, n int) store.Shard { return store.Shards(by, 2)[n] }

// namespaces returns two, one in each half of the shards of namespaces.
func namespaces() (low, high string) {
	for i := 0; low == "" || high == ""; i++ {
		name := fmt.Sprint("n", i*i*7919)
		if half(store.ByNamespace, 0).Contains(store.ShardHash(name)) {
			low = name
		} else {
			high = name
		}
	}
	return low, high
}

func TestObjectsOfOtherShardsAreNotDecoded(t *testing.T) {
	low, high := namespaces()
	for _, watchList := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			put := func(namespace, name string) {
				object := paint(name, "red, which is no number")
				if object.Namespace = namespace; namespace == low {
					object.Data = nil
				}
				require.NoError(t, server.Create(object))
			}
			put(low, "a")
			put(high, "a")
			resource, err := client.ForResource[*BadPaint](server.Config(), configMapResource, "")
			require.NoError(t, err)
			s := store.New(store.ObjectKey[*BadPaint])
			opts := []reflector.Option{
				reflector.WithShard(half(store.ByNamespace, 0)),
				reflector.WithErrorHandler(func(_ context.Context, err error) { t.Error(err) }),
			}
			if !watchList {
				opts = append(opts, reflector.WithoutWatchList())
			}
			r := reflector.New(resource, s, opts...)
			defer start(t, r)()
			put(high, "b")
			put(low, "b")
			put(high, "c")
			synctest.Wait()
			assert.Equal(t, 2, s.Len())
			assert.Equal(t, reflector.ShardedByClient, r.State().Sharding)
			assert.Equal(t, fmt.Sprint(server.ResourceVersion()), s.ResourceVersion())
		})
	}
}

func TestShardSelectorsAsAServerTakesThem(t *testing.T) {
	for want, tt := range map[string][]store.Shard{
		"":                             {},
		"none, since it is everything": {{By: store.ByNamespace}},
		"none, since one is":           {{From: 5}, {}},
		"shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')":                                                                                 {half(store.ByUID, 0)},
		"shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')":                                                                          {half(store.ByNamespace, 1)},
		"shardRange(object.metadata.uid, '0x0000000000000005', '0x0000000000000006') || shardRange(object.metadata.uid, '0x0000000000000009', '0x10000000000000000')": {{From: 5, To: 6}, {From: 9}},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			server.SetSharding(true)
			resource := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("")
			stop := start(t, reflector.New(resource, store.New(store.ObjectKey[*corev1.ConfigMap]), reflector.WithShard(tt...), reflector.WithoutWatchList()))
			stop()
			requests := server.Requests()
			require.Len(t, requests, 2, "a list and a watch")
			if strings.HasPrefix(want, "none") {
				want = ""
			}
			for _, request := range requests {
				assert.Equal(t, want, request.Query.Get("shardSelector"))
				assert.Equal(t, 200, request.Code)
			}
		})
	}
}

func TestShardsOfTwoKindsAreRefused(t *testing.T) {
	resource := kubernetes.NewForConfigOrDie(reflectortest.Start(t).Config()).CoreV1().ConfigMaps("")
	r := reflector.New(resource, store.New(store.ObjectKey[*corev1.ConfigMap]), reflector.WithShard(half(store.ByUID, 0), half(store.ByNamespace, 0)))
	require.ErrorContains(t, r.Run(t.Context()), "must all be by UID or all by namespace")
}

func TestShardsDecideWhatIsSelected(t *testing.T) {
	resource := kubernetes.NewForConfigOrDie(reflectortest.Start(t).Config()).CoreV1().ConfigMaps("")
	s := store.New(store.ObjectKey[*corev1.ConfigMap])
	low, high := namespaces()
	r := reflector.New(resource, s, reflector.WithShard(half(store.ByNamespace, 1)))
	assert.Equal(t, []store.Shard{half(store.ByNamespace, 1)}, r.Shards())
	assert.True(t, r.Selects(&metav1.ObjectMeta{Namespace: high}))
	assert.False(t, r.Selects(&metav1.ObjectMeta{Namespace: low}))
	assert.Empty(t, reflector.New(resource, s, reflector.WithShard(store.Shard{})).Shards())
}
