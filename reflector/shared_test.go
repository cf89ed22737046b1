package reflector_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// team has a reflector for each shard, and their stores.
type team[T reflector.Object] struct {
	all    []store.Shard
	stores []*store.Cache[T]
	own    []*reflector.KubernetesResourceReflector[T]
	stops  []func()

	sharding reflector.Sharding // that their State must have
}

// newTeam starts reflectors of some shards with one client.
func newTeam[T reflector.Object, L any](t *testing.T, resource reflector.Client[T, L], by store.ShardKey, n int, opts ...reflector.Option) *team[T] {
	m := &team[T]{all: store.Shards(by, n), sharding: reflector.ShardedByClient}
	for _, shard := range m.all {
		join(t, m, resource, shard, opts...)
	}
	return m
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

// onlyOneWatch runs the reflectors of 8 shards, and counts.
func onlyOneWatch[T reflector.Object, L any](t *testing.T, server *reflectortest.Server, m *meter, resource reflector.Client[T, L], by store.ShardKey, opts ...reflector.Option) {
	for n := range 80 {
		require.NoError(t, server.Create(placed(n)))
	}
	sites := client.SharedWatch(resource)
	reflectors := newTeam(t, sites, by, 8, opts...)
	defer reflectors.stop()
	reflectors.compare(t, server, "at first")
	change(t, server, 0, 20)
	reflectors.compare(t, server, "after changes")
	assert.Equal(t, 1, m.watches(), "those who listed by a watch have joined")

	m.bytes()
	change(t, server, 20, 40)
	reflectors.compare(t, server, "after more")
	shared := m.bytes()
	alone := reflector.New(resource, store.New(store.ObjectKey[T]), reflector.WithoutWatchList())
	stop := start(t, alone)
	m.bytes()
	change(t, server, 40, 60)
	synctest.Wait()
	both := m.bytes()
	stop()
	assert.InEpsilon(t, both, 2*shared, 0.1, "all shards take as much as one reflector of everything")

	reflectors.stops[0]()
	reflectors.stops[0] = func() {}
	synctest.Wait()
	assert.Equal(t, 1, m.watches(), "also when the one who opened it has left")
	change(t, server, 60, 80)
	again := store.New(store.ObjectKey[T])
	reflectors.own[0] = reflector.New(sites, again, append(opts, reflector.WithShard(reflectors.all[0]))...)
	reflectors.stores[0] = again
	reflectors.stops[0] = start(t, reflectors.own[0])
	reflectors.compare(t, server, "after one came back")
}

// object is what caches for all kinds use as T. Sharing needs its DeepCopyObject.
type object interface {
	metav1.Object
	runtime.Object
}

// wrappedObjects is a client whose methods the reflector must call: it may change what they return.
type wrappedObjects struct{ *client.Resource[object] }

func TestShardsShareOneWatch(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *reflectortest.Server, *meter, store.ShardKey, ...reflector.Option){
		"typed": func(t *testing.T, server *reflectortest.Server, m *meter, by store.ShardKey, opts ...reflector.Option) {
			resource := kubernetes.NewForConfigOrDie(m.of(server.Config())).CoreV1().ConfigMaps("")
			onlyOneWatch[*corev1.ConfigMap, *corev1.ConfigMapList](t, server, m, resource, by, opts...)
		},
		"interface": func(t *testing.T, server *reflectortest.Server, m *meter, by store.ShardKey, opts ...reflector.Option) {
			resource, err := client.ForType[object](m.of(server.Config()), configMapResource, &corev1.ConfigMap{})
			require.NoError(t, err)
			onlyOneWatch[object, *client.ResourceList[object]](t, server, m, wrappedObjects{resource}, by, opts...)
		},
		"dynamic": func(t *testing.T, server *reflectortest.Server, m *meter, by store.ShardKey, opts ...reflector.Option) {
			resource := dynamic.NewForConfigOrDie(m.of(server.Config())).Resource(configMapResource)
			onlyOneWatch[*unstructured.Unstructured, *unstructured.UnstructuredList](t, server, m, client.Dynamic(resource), by, opts...)
		},
		"JSON": func(t *testing.T, server *reflectortest.Server, m *meter, by store.ShardKey, opts ...reflector.Option) {
			resource, err := client.ForResource[*Paint](m.of(server.Config()), configMapResource, "")
			require.NoError(t, err)
			onlyOneWatch[*Paint, *client.ResourceList[*Paint]](t, server, m, resource, by, opts...)
		},
		"protobuf": func(t *testing.T, server *reflectortest.Server, m *meter, by store.ShardKey, opts ...reflector.Option) {
			resource, err := client.ForResource[*corev1.ConfigMap](m.of(server.Config()), configMapResource, "")
			require.NoError(t, err)
			onlyOneWatch[*corev1.ConfigMap, *client.ResourceList[*corev1.ConfigMap]](t, server, m, resource, by, opts...)
		},
		"REST": func(t *testing.T, server *reflectortest.Server, m *meter, by store.ShardKey, opts ...reflector.Option) {
			clientset := kubernetes.NewForConfigOrDie(m.of(server.Config()))
			resource, err := client.FromRESTClient[*corev1.ConfigMap](clientset.CoreV1().RESTClient(), "configmaps", "")
			require.NoError(t, err)
			onlyOneWatch[*corev1.ConfigMap, *client.ResourceList[*corev1.ConfigMap]](t, server, m, resource, by, opts...)
		},
	} {
		for _, by := range []store.ShardKey{store.ByUID, store.ByNamespace} {
			for _, opts := range [][]reflector.Option{nil, {reflector.WithoutWatchList()}} {
				t.Run(fmt.Sprintf("%s,%v,lists:%d", name, by, len(opts)), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						run(t, reflectortest.Start(t), &meter{}, by, opts...)
					})
				})
			}
		}
	}
}

// contextMaps is a client whose watches end only with their context.
type contextMaps struct {
	typedcorev1.ConfigMapInterface
}

func (c contextMaps) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := c.ConfigMapInterface.Watch(ctx, opts)
	return contextWatch{w}, err
}

type contextWatch struct{ watch.Interface }

func (contextWatch) Stop() {
	// The watch ends with its context.
}

func TestMemberEndsItsOwnWatchByTheContext(t *testing.T) {
	for name, opts := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, m := reflectortest.Start(t), &meter{}
				maps := kubernetes.NewForConfigOrDie(m.of(server.Config())).CoreV1().ConfigMaps("")
				onlyOneWatch[*corev1.ConfigMap, *corev1.ConfigMapList](t, server, m, contextMaps{maps}, store.ByUID, opts...)
			})
		})
	}
}

// meter counts what comes from a server.
type meter struct {
	mu      sync.Mutex // protects the fields below
	open    int        // watches
	most    int        // of them at one time
	watched int64      // bytes of all watches
}

// of returns a configuration whose requests are counted.
func (m *meter) of(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{m, next} })
	return config
}

// watches returns how many are open.
func (m *meter) watches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// bytes returns how many came by watches since it was asked last.
func (m *meter) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.watched
	m.watched = 0
	return n
}

type counting struct {
	of *meter
	http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err != nil || !strings.Contains(r.URL.RawQuery, "watch=") || response.StatusCode != http.StatusOK {
		return response, err
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.open++
	c.of.most = max(c.of.most, c.of.open)
	response.Body = &countedBody{ReadCloser: response.Body, of: c.of}
	return response, nil
}

type countedBody struct {
	io.ReadCloser
	of   *meter
	once sync.Once
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	b.of.watched += int64(n)
	b.of.mu.Unlock()
	return n, err
}

func (b *countedBody) Close() error {
	b.once.Do(func() {
		b.of.mu.Lock()
		defer b.of.mu.Unlock()
		b.of.open--
	})
	return b.ReadCloser.Close()
}
