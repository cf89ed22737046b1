package clientgo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"
)

// doubled is an informer of a fake clientset, or of a server to whose cache a test may write.
type doubled interface {
	cache.SharedIndexInformer
	runner
}

// bareListWatch is a ListWatch that does not say which client it has.
func bareListWatch(clientset kubernetes.Interface) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			return clientset.CoreV1().ConfigMaps("").List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return clientset.CoreV1().ConfigMaps("").Watch(ctx, o)
		},
	}
}

var writables = map[string]func(*testing.T) (kubernetes.Interface, doubled){
	"a typed client of a fake clientset": func(*testing.T) (kubernetes.Interface, doubled) {
		c := fake.NewClientset()
		return c, NewTyped(c.CoreV1().ConfigMaps(""))
	},
	"a ListWatch that names a fake clientset": func(*testing.T) (kubernetes.Interface, doubled) {
		c := fake.NewClientset()
		return c, NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(bareListWatch(c), c), &configMap{}, 0, nil)
	},
	"a ListWatch that names no client": func(*testing.T) (kubernetes.Interface, doubled) {
		c := fake.NewClientset()
		return c, NewSharedIndexInformer(bareListWatch(c), &configMap{}, 0, nil)
	},
	"a server and the option": func(t *testing.T) (kubernetes.Interface, doubled) {
		server := reflectortest.Start(t)
		return clientset(t, server), NewTyped(configMaps(t, server), WithLocalWrites())
	},
}

func TestWritesBesideTheReflectorOfADouble(t *testing.T) {
	for name, of := range writables {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported.take()
				c, s := of(t)
				api := c.CoreV1().ConfigMaps("default")
				for _, object := range []*configMap{named("a", "listed"), named("c", "listed"), named("d", "listed")} {
					_, err := api.Create(t.Context(), object, metav1.CreateOptions{})
					require.NoError(t, err)
				}
				require.NoError(t, s.AddIndexers(cache.Indexers{"letters": letters}))
				var d diary
				_, err := s.AddEventHandler(&d)
				require.NoError(t, err)
				began := time.Now()
				run(t, s)
				require.True(t, cache.WaitForCacheSync(t.Context().Done(), s.HasSynced))
				assert.Less(t, time.Since(began), time.Second)
				synctest.Wait()
				d.take()

				x := s.GetIndexer()
				version := s.LastSyncResourceVersion()
				require.NoError(t, x.Update(named("a", "q")))
				require.NoError(t, x.Add(named("b", "q")))
				require.NoError(t, x.Delete(named("c")))
				require.NoError(t, x.Delete(cache.ExplicitKey("default/d")))
				synctest.Wait()
				assert.Equal(t, []string{"default/a", "default/b"}, x.ListKeys())
				keys, err := x.IndexKeys("letters", "q")
				require.NoError(t, err)
				assert.Equal(t, []string{"default/a", "default/b"}, keys)
				assert.Empty(t, d.take(), "a local write sends no event")
				assert.Equal(t, version, s.LastSyncResourceVersion())
				var late diary
				_, err = s.AddEventHandler(&late)
				require.NoError(t, err)
				synctest.Wait()
				assert.Equal(t, []string{"initial a:q", "initial b:q"}, late.take())

				_, err = api.Update(t.Context(), named("a", "new"), metav1.UpdateOptions{})
				require.NoError(t, err)
				_, err = api.Create(t.Context(), named("b", "new"), metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = api.Update(t.Context(), named("c", "new"), metav1.UpdateOptions{})
				require.NoError(t, err)
				require.NoError(t, api.Delete(t.Context(), "d", metav1.DeleteOptions{}))
				synctest.Wait()
				assert.Equal(t, []string{"default/a", "default/b", "default/c"}, x.ListKeys())
				lines := d.take()
				assert.Contains(t, lines, "add c:new")
				assert.Contains(t, fmt.Sprint(lines), "a:new")
				assert.Contains(t, fmt.Sprint(lines), "b:new")
				a, _, err := x.GetByKey("default/a")
				require.NoError(t, err)
				assert.Equal(t, "a:new", short(a), "the next event overrides it")

				require.NoError(t, x.Replace([]any{named("z"), named("a", "local")}, "9"))
				assert.Equal(t, []string{"default/a", "default/z"}, x.ListKeys())
				assert.Len(t, x.List(), 2)
				assert.Empty(t, reported.take())
			})
		})
	}
}

func TestListOverridesLocalWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "listed"), named("b", "listed"), named("c"))
		s := NewTyped(configMaps(t, server), WithLocalWrites())
		var d diary
		_, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		d.take()
		x := s.GetIndexer()
		held, _, err := x.GetByKey("default/a")
		require.NoError(t, err)
		local := held.(*configMap).DeepCopy() // with the version of the server
		local.Data["word"] = "local"
		require.NoError(t, x.Update(local))
		require.NoError(t, x.Delete(named("b")))
		require.NoError(t, x.Add(named("z", "local")))
		relist(t, server, func() { require.NoError(t, server.Delete(named("c"))) })
		assert.Equal(t, []string{"default/a", "default/b"}, x.ListKeys())
		assert.ElementsMatch(t, []string{"update a:local>a:listed", "add b:listed", "missing default/z z:local", "missing default/c c"}, d.take())
	})
}

// Both write at once: the reflector's last word counts.
func TestLocalWritesWhileTheReflectorWrites(t *testing.T) {
	for name, of := range writables {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := of(t)
				api := c.CoreV1().ConfigMaps("default")
				var d diary
				_, err := s.AddEventHandler(&d)
				require.NoError(t, err)
				require.NoError(t, s.AddIndexers(cache.Indexers{"letters": letters}))
				run(t, s)
				require.True(t, cache.WaitForCacheSync(t.Context().Done(), s.HasSynced))
				const rounds, objects = 50, 4
				done := make(chan struct{})
				go func() {
					defer close(done)
					x := s.GetIndexer()
					for n := range rounds * objects {
						one := named(fmt.Sprint(n%objects), "local")
						assert.NoError(t, x.Add(one))
						_, _ = x.ByIndex("letters", "l")
						x.List()
						if n%3 == 0 {
							assert.NoError(t, x.Delete(one))
						}
						if n%50 == 0 {
							assert.NoError(t, x.Replace([]any{one}, ""))
						}
					}
				}()
				for n := range objects {
					_, err := api.Create(t.Context(), named(fmt.Sprint(n), "0"), metav1.CreateOptions{})
					require.NoError(t, err)
				}
				for round := range rounds {
					for n := range objects {
						_, err := api.Update(t.Context(), named(fmt.Sprint(n), fmt.Sprint(round)), metav1.UpdateOptions{})
						require.NoError(t, err)
					}
				}
				<-done
				for n := range objects {
					_, err := api.Update(t.Context(), named(fmt.Sprint(n), "last"), metav1.UpdateOptions{})
					require.NoError(t, err)
				}
				synctest.Wait()
				for n := range objects {
					one, ok, err := s.GetIndexer().GetByKey(fmt.Sprint("default/", n))
					require.NoError(t, err)
					require.True(t, ok)
					assert.Equal(t, "last", one.(*configMap).Data["word"])
				}
			})
		})
	}
}

// A bare ListWatch over a fake client is not recognized, but by its watch.
func TestListWatchOfAFakeMetadataClientSyncsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := metadatafake.NewTestScheme()
		require.NoError(t, metav1.AddMetaToScheme(scheme))
		a := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
		from := metadatafake.NewSimpleMetadataClient(scheme, a).Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
		s := NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) { return from.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return from.Watch(ctx, o) },
		}, &metav1.PartialObjectMetadata{}, 0, nil)
		began := time.Now()
		run(t, s)
		require.True(t, cache.WaitForCacheSync(t.Context().Done(), s.HasSynced))
		assert.Less(t, time.Since(began), time.Second)
		assert.Equal(t, []string{"n/a"}, s.GetStore().ListKeys())
		assert.NoError(t, s.GetStore().Delete(a))
	})
}

func TestRefusedWriteNamesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := func() cache.Indexer {
			s := NewTyped(configMaps(t, reflectortest.Start(t)))
			run(t, s)
			synctest.Wait()
			return s.GetIndexer()
		}
		for name, write := range map[string]func(cache.Indexer) error{
			"Add":        func(x cache.Indexer) error { return x.Add(named("a")) },
			"Delete":     func(x cache.Indexer) error { return x.Delete(named("a")) },
			"Delete key": func(x cache.Indexer) error { return x.Delete(cache.ExplicitKey("a")) },
			"Replace":    func(x cache.Indexer) error { return x.Replace(nil, "") },
		} {
			x := x()
			reported.take()
			assert.ErrorIs(t, write(x), ErrReadOnly, name)
			require.Len(t, reported.take(), 1)
			caller := fmt.Sprint(reported.values[len(reported.values)-1])
			_, file, _, _ := runtime.Caller(0)
			assert.Contains(t, caller, file+":", name)
		}
	})
}

// A fake clientset stores an object that has only a generateName under an empty name.
func TestObjectsWithoutANameAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		c := fake.NewSimpleClientset()
		maps, nodes := NewTyped(c.CoreV1().ConfigMaps("")), NewTyped(c.CoreV1().Nodes())
		var d diary
		_, err := nodes.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, maps)
		run(t, nodes)
		synctest.Wait()
		_, err = c.CoreV1().ConfigMaps("default").Create(t.Context(), &configMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
		_, err = c.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		for _, x := range []cache.Indexer{maps.GetIndexer(), nodes.GetIndexer()} {
			all := x.List()
			require.Len(t, all, 1)
			key, err := cache.MetaNamespaceKeyFunc(all[0])
			require.NoError(t, err)
			assert.Equal(t, []string{key}, x.ListKeys())
			for _, find := range []func() (any, bool, error){
				func() (any, bool, error) { return x.GetByKey(key) },
				func() (any, bool, error) { return x.Get(all[0]) },
				func() (any, bool, error) { return x.Get(cache.ExplicitKey(key)) },
			} {
				got, ok, err := find()
				require.NoError(t, err)
				require.True(t, ok)
				assert.Same(t, all[0], got)
			}
			found, err := x.IndexKeys(cache.NamespaceIndex, all[0].(metav1.Object).GetNamespace())
			require.NoError(t, err)
			assert.Equal(t, []string{key}, found)
		}
		assert.Equal(t, []string{"add "}, d.take())
		require.NoError(t, nodes.GetIndexer().Delete(cache.DeletedFinalStateUnknown{}))
		assert.Empty(t, nodes.GetIndexer().List())
		assert.Error(t, nodes.GetIndexer().Add((*corev1.Node)(nil)))
		assert.Empty(t, reported.take())
	})
}

func TestObjectsWithoutANameAreFed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewSimpleClientset()
		from := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(bareListWatch(c), c), &configMap{}, 0)
		i := FromSharedInformer(from, store.ObjectKey[*configMap])
		run(t, from)
		defer begin(t, i)()
		for _, namespace := range []string{"default", ""} {
			_, err := c.CoreV1().ConfigMaps(namespace).Create(t.Context(), &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-"}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.NoError(t, i.Ready())
		assert.Equal(t, 2, i.Cache().Len())
		for _, namespace := range []string{"default", ""} {
			require.NoError(t, c.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "", metav1.DeleteOptions{}))
		}
		synctest.Wait()
		assert.Zero(t, i.Cache().Len())
	})
}

func TestKeyOfAnObjectWithoutAName(t *testing.T) {
	refused := errors.New("not this one")
	refuse := func(*configMap) (store.Key, error) { return store.Key{}, refused }
	_, err := allNamed(refuse)(&configMap{})
	require.ErrorIs(t, err, refused, "the caller decides")
	_, err = allNamed(store.ObjectKey[*configMap])(nil)
	require.ErrorIs(t, err, store.ErrBadKey)
	assert.Panics(t, func() { FromSharedInformer[*configMap](nil, nil) }, "no KeyFunc")
	key, err := allNamed(store.ObjectKey[*configMap])(&configMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}})
	require.NoError(t, err)
	assert.Equal(t, store.Key{Namespace: "default"}, key)
}

func TestObjectWithoutANameBeforeTheStart(t *testing.T) {
	s := NewTyped(fake.NewSimpleClientset().CoreV1().ConfigMaps(""))
	require.NoError(t, s.GetStore().Add(&configMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}))
	require.NoError(t, s.GetStore().Add(&configMap{}))
	assert.Equal(t, []string{"", "default/"}, s.GetStore().ListKeys())
}
