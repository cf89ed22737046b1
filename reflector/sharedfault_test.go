package reflector_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// sites returns a client for shards of what some ConfigMaps are.
func sites(t *testing.T, server *reflectortest.Server, m *meter) reflector.Client[*corev1.ConfigMap, *client.ResourceList[*corev1.ConfigMap]] {
	for n := range 80 {
		require.NoError(t, server.Create(placed(n)))
	}
	resource, err := client.ForResource[*corev1.ConfigMap](m.of(server.Config()), configMapResource, "")
	require.NoError(t, err)
	return client.SharedWatch(resource)
}

// together starts the reflectors of some shards at the same time: all of them ask before the first is answered.
func together(t *testing.T, server *reflectortest.Server, resource reflector.Client[*corev1.ConfigMap, *client.ResourceList[*corev1.ConfigMap]], n int) *team[*corev1.ConfigMap] {
	release := make(chan struct{})
	server.Inject(reflectortest.Stall(release).On("watch", "configmaps").Times(1))
	shards := newTeam(t, resource, store.ByUID, n)
	close(release)
	synctest.Wait()
	return shards
}

func TestShardsThatBeginTogetherShareAWatchList(t *testing.T) {
	for _, selects := range []bool{false, true} {
		t.Run(fmt.Sprint("server selects: ", selects), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, m := reflectortest.Start(t), &meter{}
				server.SetSharding(selects)
				resource := sites(t, server, m)
				alone := newTeam(t, resource, store.ByUID, 1)
				whole := m.bytes()
				alone.stop()
				server.ForgetRequests()
				shards := together(t, server, resource, 8)
				defer shards.stop()
				lists := server.Requests(reflectortest.Param("sendInitialEvents", "true"))
				assert.Len(t, lists, 2, "the first one, and one for all who came meanwhile")
				assert.Less(t, m.bytes(), map[bool]int64{false: 5 * whole / 2, true: 5 * whole / 4}[selects])
				held := 0
				for i, s := range shards.stores {
					held += s.Len()
					assert.Equal(t, map[bool]reflector.Sharding{false: reflector.ShardedByClient, true: reflector.ShardedByServer}[selects], shards.own[i].State().Sharding)
				}
				assert.Equal(t, 80, held)
				if !selects {
					change(t, server, 0, 20)
					shards.compare(t, server, "after changes")
					assert.Equal(t, 1, m.watches())
				}
			})
		})
	}
}

func TestServerIsNotAskedForTheShardsOfThoseWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.SetSharding(true)
		shards := together(t, server, sites(t, server, &meter{}), 8)
		defer shards.stop()
		for _, stop := range shards.stops[4:] {
			stop()
		}
		shards.stops = shards.stops[:4]
		<-time.After(2 * time.Second)
		server.ForgetRequests()
		change(t, server, 0, 80)
		<-time.After(time.Minute)
		asked := server.Requests(reflectortest.Verb("watch"))
		assert.Len(t, asked, 3, "once for each that took part and stayed")
		for _, r := range asked {
			assert.NotContains(t, r.Query.Get("shardSelector"), "||", "of one shard")
			assert.Empty(t, r.Query.Get("sendInitialEvents"), "from where it was")
		}
		objects, err := reflectortest.List[*corev1.ConfigMap](server, "")
		require.NoError(t, err)
		for i, shard := range shards.all[:4] {
			want, got := map[types.UID]string{}, map[types.UID]string{}
			for _, o := range objects {
				if shard.Contains(store.ShardHash(string(o.UID))) {
					want[o.UID] = o.ResourceVersion
				}
			}
			for _, o := range shards.stores[i].All() {
				got[o.UID] = o.ResourceVersion
			}
			assert.Equal(t, want, got, "shard %d", i)
			assert.NoError(t, shards.own[i].State().Err)
		}
	})
}

func TestSharedWatchOfAServerThatDoesNotSelectStays(t *testing.T) {
	for range 20 { // UIDs and the order in which they ask differ
		synctest.Test(t, sharedWatchOfAServerThatDoesNotSelectStays)
	}
}

func sharedWatchOfAServerThatDoesNotSelectStays(t *testing.T) {
	server := reflectortest.Start(t)
	shards := together(t, server, sites(t, server, &meter{}), 8)
	defer shards.stop()
	<-time.After(2 * time.Second)
	server.ForgetRequests()
	objects, err := reflectortest.List[*corev1.ConfigMap](server, "")
	require.NoError(t, err)
	in := slices.IndexFunc(objects, func(o *corev1.ConfigMap) bool {
		return shards.all[3].Contains(store.ShardHash(string(o.UID)))
	})
	for i := range 8 { // at the first, the reflector of the shard joins what all share
		object := objects[in].DeepCopy()
		object.Data, object.ResourceVersion = map[string]string{"color": fmt.Sprint(i)}, ""
		require.NoError(t, server.Update(object))
		<-time.After(300 * time.Millisecond)
	}
	<-time.After(10 * time.Second)
	assert.LessOrEqual(t, len(server.Requests(reflectortest.Verb("watch"))), 1, "what all share")
	<-time.After(5 * time.Minute)
	shards.compare(t, server, "afterwards")
}

func TestServerThatSelectsIsLeftToIt(t *testing.T) {
	for _, opts := range [][]reflector.Option{nil, {reflector.WithoutWatchList()}} {
		synctest.Test(t, func(t *testing.T) {
			server, m := reflectortest.Start(t), &meter{}
			server.SetSharding(true)
			resource := sites(t, server, m)
			shards := newTeam(t, resource, store.ByUID, 4, opts...)
			defer shards.stop()
			m.bytes()
			change(t, server, 0, 20)
			synctest.Wait()
			for _, r := range shards.own {
				assert.Equal(t, reflector.ShardedByServer, r.State().Sharding)
			}
			assert.Equal(t, 4, m.watches(), "of one shard each")
			for _, r := range server.Requests(reflectortest.Verb("watch")) {
				assert.NotEmpty(t, r.Query.Get("shardSelector"))
			}
		})
	}
}

// stuck is a store that takes nothing for a while.
type stuck struct {
	*store.Cache[*corev1.ConfigMap]
	until <-chan struct{}
}

func (s *stuck) Add(o *corev1.ConfigMap) error {
	<-s.until
	return s.Cache.Add(o)
}

func TestShardThatTakesNothingHoldsUpNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, m := reflectortest.Start(t), &meter{}
		resource := sites(t, server, m)
		shards := newTeam(t, resource, store.ByUID, 4, reflector.WithoutWatchList())
		defer shards.stop()
		shards.stops[0]()
		until := make(chan struct{})
		slow := &stuck{newCache(), until}
		shards.stores[0] = slow.Cache
		shards.own[0] = reflector.New(resource, store.Store[*corev1.ConfigMap](slow), reflector.WithShard(shards.all[0]), reflector.WithoutWatchList())
		shards.stops[0] = start(t, shards.own[0])
		assert.Equal(t, 1, m.watches())
		large := strings.Repeat("x", 20_000)
		for n := range 400 {
			object := placed(5000 + n)
			object.Data["large"] = large
			require.NoError(t, server.Create(object))
		}
		synctest.Wait()
		version := fmt.Sprint(server.ResourceVersion())
		assert.NotEqual(t, version, shards.stores[1].ResourceVersion(), "at first all wait")
		<-time.After(6 * time.Second)
		synctest.Wait()
		for _, s := range shards.stores[1:] {
			assert.Equal(t, version, s.ResourceVersion())
		}
		close(until)
		synctest.Wait()
		change(t, server, 0, 20)
		synctest.Wait()
		change(t, server, 20, 40)
		<-time.After(time.Second) // the pause before it resumes
		shards.compare(t, server, "once it takes something again")
		assert.Equal(t, 1, m.watches())
	})
}

func TestOnlyThoseShareWhoAskAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, m := reflectortest.Start(t), &meter{}
		resource := sites(t, server, m)
		colored := func(n int) *corev1.ConfigMap {
			object := placed(n)
			object.Labels = map[string]string{"color": map[bool]string{true: "red", false: "blue"}[n%2 == 0]}
			return object
		}
		for n := range 20 {
			require.NoError(t, server.Create(colored(900+n)))
		}
		all := store.Shards(store.ByUID, 2)
		red, everything := newCache(), newCache()
		defer start(t, reflector.New(resource, red, reflector.WithShard(all[0]), reflector.WithoutWatchList(),
			reflector.WithLabelSelector(labels.SelectorFromSet(labels.Set{"color": "red"}))))()
		defer start(t, reflector.New(resource, everything, reflector.WithShard(all[0]), reflector.WithoutWatchList()))()
		for n := range 40 {
			require.NoError(t, server.Create(colored(1000+n)))
		}
		synctest.Wait()
		want := map[bool]int{}
		objects, err := reflectortest.List[*corev1.ConfigMap](server, "")
		require.NoError(t, err)
		for _, o := range objects {
			if all[0].Contains(store.ShardHash(string(o.UID))) {
				want[false]++
				if o.Labels["color"] == "red" {
					want[true]++
				}
			}
		}
		assert.Equal(t, want[true], red.Len())
		assert.Equal(t, want[false], everything.Len())
		assert.Positive(t, red.Len())
	})
}

func TestShardsThatOverlapShareNoObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(placed(0)))
		require.NoError(t, server.Create(placed(1)))
		resource := client.SharedWatch(kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps(""))
		half := store.Shards(store.ByUID, 2)[0]
		a, b := newCache(), newCache()
		defer start(t, reflector.New(resource, a, reflector.WithShard(half), reflector.WithoutWatchList()))()
		defer start(t, reflector.New(resource, b, reflector.WithShard(half), reflector.WithoutWatchList()))()
		for n := range 40 {
			require.NoError(t, server.Create(placed(100+n)))
		}
		synctest.Wait()
		assert.Greater(t, a.Len(), 5)
		assert.Equal(t, a.Len(), b.Len())
		for key, o := range a.All() {
			other, _ := b.Get(key)
			require.NotNil(t, other)
			assert.NotSame(t, o, other, key)
		}
	})
}

func TestShardThatSharesIsRecordedAndReplayed(t *testing.T) {
	for _, lists := range [][]reflector.Option{nil, {reflector.WithoutWatchList()}} {
		synctest.Test(t, func(t *testing.T) {
			server, m := reflectortest.Start(t), &meter{}
			resource := sites(t, server, m)
			half := reflector.WithShard(store.Shards(store.ByUID, 2)[0])
			defer start(t, reflector.New(resource, newCache(), append(lists, half)...))()
			var recording bytes.Buffer
			recorded := newCache()
			stop := start(t, reflector.New(record.Client(resource, record.NewRecorder(&recording)), recorded, append(lists, half)...))
			change(t, server, 0, 20)
			synctest.Wait()
			change(t, server, 20, 40)
			synctest.Wait()
			assert.Equal(t, 1, m.watches())
			stop()
			replay, err := record.NewReplay[*corev1.ConfigMap](&recording)
			require.NoError(t, err)
			replayed := newCache()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- reflector.New(replay, replayed, append(lists, half)...).Run(ctx) }()
			synctest.Wait()
			<-time.After(time.Hour)
			synctest.Wait()
			cancel()
			require.NoError(t, <-ended)
			require.NoError(t, replay.Err())
			assert.Equal(t, recorded.Len(), replayed.Len())
			assert.Equal(t, recorded.ResourceVersion(), replayed.ResourceVersion())
			for key, o := range recorded.All() {
				other, _ := replayed.Get(key)
				require.NotNil(t, other, key)
				assert.Equal(t, o.ResourceVersion, other.ResourceVersion)
			}
		})
	}
}

func TestSharedWatchOfNoClient(t *testing.T) {
	resource := client.SharedWatch[*corev1.ConfigMap, *corev1.ConfigMapList](nil)
	r := reflector.New(resource, newCache(), reflector.WithShard(store.Shards(store.ByUID, 2)[0]))
	require.ErrorIs(t, r.Run(t.Context()), reflector.ErrNoClient)
}
