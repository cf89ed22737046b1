package reflector_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// configMaps is a client that does something else to some requests.
type configMaps struct {
	reflector.Client[*corev1.ConfigMap, *corev1.ConfigMapList]
	list  func(metav1.ListOptions) (*corev1.ConfigMapList, error)
	watch func(metav1.ListOptions) (watch.Interface, error)
}

func (c configMaps) List(_ context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return c.list(opts)
}

func (c configMaps) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.watch(opts)
}

func TestServerThatRefusesShardsIsAskedForEverything(t *testing.T) {
	for name, refusal := range map[string]error{
		"400": apierrors.NewBadRequest("unknown parameter"),
		"422": apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil),
	} {
		for _, watchList := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				for n := range 20 {
					require.NoError(t, server.Create(placed(n)))
				}
				own := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("")
				refused := 0
				refuses := func(opts metav1.ListOptions) bool {
					if opts.ShardSelector != "" {
						refused++
					}
					return opts.ShardSelector != ""
				}
				resource := configMaps{own,
					func(opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
						if refuses(opts) {
							return nil, refusal
						}
						return own.List(t.Context(), opts)
					},
					func(opts metav1.ListOptions) (watch.Interface, error) {
						if refuses(opts) {
							return nil, refusal
						}
						return own.Watch(t.Context(), opts)
					},
				}
				s := store.New(store.ObjectKey[*corev1.ConfigMap])
				opts := []reflector.Option{reflector.WithShard(half(store.ByUID, 0)), reflector.WithErrorHandler(func(_ context.Context, err error) { t.Error(name, err) })}
				if !watchList {
					opts = append(opts, reflector.WithoutWatchList())
				}
				r := reflector.New(resource, s, opts...)
				stop := start(t, r)
				assert.Equal(t, reflector.ShardedByClient, r.State().Sharding)
				assert.Positive(t, s.Len())
				assert.Less(t, s.Len(), 20)
				assert.Equal(t, 1, refused, "and not asked again before the next list")
				assert.Len(t, server.Requests(reflectortest.Param("sendInitialEvents", "true")), map[bool]int{true: 1}[watchList])
				stop()
			})
		}
	}
}

func TestServerThatMeansOtherShardsIsAskedForEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for n := range 20 {
			require.NoError(t, server.Create(placed(n)))
		}
		own := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("")
		resource := configMaps{own,
			func(opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
				list, err := own.List(t.Context(), opts)
				if opts.ShardSelector != "" {
					list.Items = list.Items[:10] // an odd way to select
					list.ShardInfo = &metav1.ShardInfo{Selector: opts.ShardSelector}
				}
				return list, err
			},
			func(opts metav1.ListOptions) (watch.Interface, error) { return own.Watch(t.Context(), opts) },
		}
		var failures []error
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		asked := func() (all []string) {
			for _, request := range server.Requests(reflectortest.Verb("watch")) {
				all = append(all, request.Query.Get("shardSelector"))
			}
			return all
		}
		r := reflector.New(resource, s, reflector.WithShard(half(store.ByUID, 0)), reflector.WithoutWatchList(),
			reflector.WithErrorHandler(func(_ context.Context, err error) { failures = append(failures, err) }))
		stop := start(t, r)
		<-time.After(time.Minute)
		synctest.Wait()
		stop()
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], reflector.ErrShardMismatch)
		want := 0
		objects, err := reflectortest.List[*corev1.ConfigMap](server, "")
		require.NoError(t, err)
		for _, o := range objects {
			if half(store.ByUID, 0).Contains(store.ShardHash(string(o.UID))) {
				want++
			}
		}
		assert.Equal(t, want, s.Len(), "nothing is missing")
		assert.Equal(t, reflector.ShardedByClient, r.State().Sharding)

		stop = start(t, r) // it resumes without a list
		synctest.Wait()
		stop()
		assert.Equal(t, []string{"", ""}, asked(), "the next Run knows it, too")
	})
}

func TestServerIsUpgradedAndDowngraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithWatchTimeout(time.Minute))
		for n := range 20 {
			require.NoError(t, server.Create(placed(n)))
		}
		resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "")
		require.NoError(t, err)
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New(resource, s, reflector.WithShard(half(store.ByUID, 1)))
		defer start(t, r)()
		assert.Equal(t, reflector.ShardedByClient, r.State().Sharding)
		for n, on := range []bool{true, false, true} {
			server.SetSharding(on)
			server.Inject(reflectortest.ErrorEvent(0, apierrors.NewResourceExpired("expired").ErrStatus).On("watch", "configmaps").Times(1))
			<-time.After(20 * time.Minute) // the watch has ended, the next one was refused, and there was a list
			for m := range 10 {
				require.NoError(t, server.Create(placed(100*n+100+m)))
			}
			synctest.Wait()
			want := map[types.UID]bool{}
			objects, err := reflectortest.List[*corev1.ConfigMap](server, "")
			require.NoError(t, err)
			for _, o := range objects {
				if half(store.ByUID, 1).Contains(store.ShardHash(string(o.UID))) {
					want[o.UID] = true
				}
			}
			got := map[types.UID]bool{}
			for _, o := range s.All() {
				got[o.UID] = true
			}
			assert.True(t, maps.Equal(want, got), "%d: %d of %d", n, len(got), len(want))
			assert.Equal(t, map[bool]reflector.Sharding{true: reflector.ShardedByServer, false: reflector.ShardedByClient}[on], r.State().Sharding, "%d", n)
		}
	})
}

func TestResumeWithoutAListLeavesOutOtherShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(placed(0)))
		resource := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("")
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		require.NoError(t, s.Replace(nil, fmt.Sprint(server.ResourceVersion())))
		r := reflector.New(resource, s, reflector.WithShard(half(store.ByUID, 0)))
		defer start(t, r)()
		assert.Equal(t, reflector.ShardingUnknown, r.State().Sharding)
		for n := range 30 {
			require.NoError(t, server.Create(placed(100+n)))
		}
		synctest.Wait()
		for _, o := range s.All() {
			assert.True(t, half(store.ByUID, 0).Contains(store.ShardHash(string(o.UID))))
		}
		assert.Positive(t, s.Len())
		assert.Less(t, s.Len(), 30)
		assert.Equal(t, reflector.ShardedByClient, r.State().Sharding)
		assert.Empty(t, server.Requests(reflectortest.Verb("list")))
	})
}

func TestStoreThatHeldOtherShardsIsCleanedByTheNextList(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			for n := range 20 {
				require.NoError(t, server.Create(placed(n)))
			}
			resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "")
			require.NoError(t, err)
			s := store.New(store.ObjectKey[*corev1.ConfigMap])
			start(t, reflector.New(resource, s))()
			require.Equal(t, 20, s.Len())
			for n := range 3 {
				require.NoError(t, server.Create(placed(100+n)))
			}
			require.NoError(t, server.Compact(server.ResourceVersion()))
			opts := []reflector.Option{reflector.WithShard(half(store.ByUID, 0))}
			if !watchList {
				opts = append(opts, reflector.WithoutWatchList())
			}
			stop := start(t, reflector.New(resource, s, opts...))
			<-time.After(time.Minute)
			synctest.Wait()
			stop()
			for _, o := range s.All() {
				assert.True(t, half(store.ByUID, 0).Contains(store.ShardHash(string(o.UID))))
			}
			assert.Positive(t, s.Len())
		})
	}
}
