package scoped

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// shardDiary notes what a subscriber of shards is told.
type shardDiary struct {
	mu    sync.Mutex
	words map[string]int
	known map[types.UID]bool
	wrong []string
}

func (d *shardDiary) Handle(_ context.Context, e eventqueue.Event[*corev1.Pod]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	word := e.Type.String()
	if e.OutOfScope {
		word = "Left"
	}
	d.words[word]++
	uid := e.Object.UID
	if d.known[uid] == (e.Type == eventqueue.Addition) {
		d.wrong = append(d.wrong, fmt.Sprint(e))
	}
	d.known[uid] = e.Type != eventqueue.Deletion
	return nil
}

func (d *shardDiary) take() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	words := d.words
	delete(words, "Modification") // a Pod on a node has one before it is gone
	d.words = map[string]int{}
	return words
}

// inShards returns how many Pods of a server are in some shards, and whether a cache holds
// them and nothing else.
func inShards(t *testing.T, server *reflectortest.Server, cache *store.View[*corev1.Pod], shards ...store.Shard) int {
	t.Helper()
	var want, got []types.UID
	objects, err := reflectortest.List[*corev1.Pod](server, "")
	require.NoError(t, err)
	for _, o := range objects {
		if slices.ContainsFunc(shards, func(s store.Shard) bool { return s.Contains(store.ShardHash(string(o.UID))) }) {
			want = append(want, o.UID)
		}
	}
	for _, o := range cache.All() {
		got = append(got, o.UID)
	}
	require.ElementsMatch(t, want, got)
	return len(want)
}

func podClient(server *reflectortest.Server) reflector.Client[*corev1.Pod, *corev1.PodList] {
	return kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("")
}

func TestShardsComeAndGoWhileTheInformerRuns(t *testing.T) {
	for name, gate := range map[string]bool{"gate": true, "no gate": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				server.SetSharding(gate)
				resource := podClient(server)
				for n := range 60 {
					require.NoError(t, server.Create(onNode(fmt.Sprint("a-", n), "n")))
				}
				pods := newPods()
				d := &shardDiary{words: map[string]int{}, known: map[types.UID]bool{}}
				pods.Handle(informer.HandlerFunc[*corev1.Pod](d.Handle), informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
				all := store.Shards(store.ByUID, 4)
				scope := func(n int) store.Scope { return store.Scope{Shard: all[n]} }
				require.NoError(t, Add(pods.scopes, scope(0), resource))
				require.NoError(t, Add(pods.scopes, scope(1), resource))
				stop := start(t, pods)
				require.NoError(t, pods.WaitForSync(t.Context()))
				synctest.Wait()
				first := inShards(t, server, pods.Cache(), all[:2]...)
				assert.Equal(t, map[string]int{"Addition": first}, d.take())

				server.ForgetRequests()
				require.NoError(t, Add(pods.scopes, scope(2), resource))
				require.NoError(t, pods.WaitForSync(t.Context()))
				synctest.Wait()
				second := inShards(t, server, pods.Cache(), all[:3]...)
				assert.Equal(t, map[string]int{"Addition": second - first}, d.take(), "what is held is not told again")
				assert.Len(t, server.Requests(), 1, "what is held is not listed again")

				require.NoError(t, pods.scopes.Drop(scope(0)))
				synctest.Wait()
				third := inShards(t, server, pods.Cache(), all[1:3]...)
				assert.Equal(t, map[string]int{"Left": second - third}, d.take())

				for n := range 60 {
					object := onNode(fmt.Sprint("a-", n), "n")
					require.NoError(t, server.Delete(object))
					require.NoError(t, server.Create(object), "in another shard, as a rule")
				}
				synctest.Wait()
				fourth := inShards(t, server, pods.Cache(), all[1:3]...)
				assert.Equal(t, map[string]int{"Deletion": third, "Addition": fourth}, d.take())

				require.NoError(t, Add(pods.scopes, scope(0), resource))
				require.NoError(t, Add(pods.scopes, scope(3), resource))
				require.NoError(t, pods.WaitForSync(t.Context()))
				synctest.Wait()
				assert.Equal(t, 60, inShards(t, server, pods.Cache(), all...))
				for _, state := range pods.Scopes() {
					want := map[bool]reflector.Sharding{true: reflector.ShardedByServer, false: reflector.ShardedByClient}[gate]
					assert.Equal(t, want, state.State.Sharding, state.Scope)
				}
				require.NoError(t, pods.Ready())
				require.NoError(t, stop())
				assert.Empty(t, d.wrong)
			})
		})
	}
}

// TestShardsThatLagBehindEachOther has objects made anew while the watches of some shards stall.
func TestShardsThatLagBehindEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.SetSharding(true)
		pods := newPods()
		d := &shardDiary{words: map[string]int{}, known: map[types.UID]bool{}}
		pods.Handle(informer.HandlerFunc[*corev1.Pod](d.Handle), informer.WithQueue(eventqueue.WithCompaction(eventqueue.KeepAll)))
		for _, shard := range store.Shards(store.ByUID, 3) {
			addScope(t, pods, store.Scope{Shard: shard}, server)
		}
		for n := range 10 {
			require.NoError(t, server.Create(onNode(fmt.Sprint("a-", n), "n")))
		}
		release := make(chan struct{})
		server.Inject(reflectortest.StallAfterEvents(2, release).On("watch", "pods").Times(2))
		stop := start(t, pods)
		for range 5 {
			for n := range 10 {
				object := onNode(fmt.Sprint("a-", n), "n")
				require.NoError(t, server.Delete(object))
				require.NoError(t, server.Create(object))
			}
			synctest.Wait()
		}
		close(release)
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, 10, inShards(t, server, pods.Cache(), store.Shard{}))
		require.NoError(t, stop())
		assert.Empty(t, d.wrong)
	})
}

func TestWhatAnInformerCovers(t *testing.T) {
	server := reflectortest.Start(t)
	resource := clientOf(t, server).CoreV1().Pods("")
	key := func(cluster, namespace string) store.Key {
		return store.Key{Cluster: cluster, Namespace: namespace, Name: "a"}
	}
	assert.True(t, informer.New(resource).Covers(key("", "n")))
	assert.False(t, informer.New(resource, informer.WithReflector(reflector.WithShard(store.Shards(store.ByUID, 2)[0]))).Covers(key("", "n")))
	i := newPods()
	assert.False(t, i.Covers(key("", "n")))
	addScope(t, i, store.Scope{Namespace: "n"}, server)
	addScope(t, i, store.Scope{Cluster: "west", Shard: store.Shards(store.ByUID, 2)[0]}, server)
	addScope(t, i, store.Scope{Cluster: "east"}, server)
	assert.False(t, i.Covers(key("", "n")), "nothing is listed")
	stop := start(t, i)
	require.NoError(t, i.WaitForSync(t.Context()))
	assert.True(t, i.Covers(key("", "n")))
	assert.False(t, i.Covers(key("", "m")))
	assert.False(t, i.Covers(key("west", "n")), "only some of them")
	assert.True(t, i.Covers(key("east", "m")))
	require.NoError(t, stop())
}
