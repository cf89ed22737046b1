package reflector_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"pgregory.net/rapid"
)

// commits writes down the commits of a store.
type commits struct {
	mu    sync.Mutex
	lines []string
}

func (c *commits) Start(*store.Snapshot[*corev1.ConfigMap]) {}

func (c *commits) Commit(commit *store.Commit[*corev1.ConfigMap]) {
	var changes []string
	for _, change := range commit.Changes {
		changes = append(changes, fmt.Sprint(change.Type, change.Key, state(change.Prior), state(change.Object)))
	}
	if len(changes) == 0 {
		return // bookmarks, and lists that found nothing new
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprint(commit.Origin, commit.Initial, commit.ResourceVersion, changes))
}

func state(o *corev1.ConfigMap) string {
	if o == nil {
		return "-"
	}
	return fmt.Sprint(o.UID, o.ResourceVersion, o.Data)
}

func (c *commits) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

// TestReplayCommitsWhatTheRecordedReflectorDid records random histories of writes, faults,
// compactions and restored backups, and replays them: the store makes the same commits, one by
// commit.
func TestReplayCommitsWhatTheRecordedReflectorDid(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var file bytes.Buffer
		var lived, again commits
		l := life{
			client:    rapid.SampledFrom([]string{"generated", "JSON", "protobuf", "REST"}).Draw(rt, "client"),
			pageSize:  rapid.SampledFrom([]int{0, 1, 2, 500}).Draw(rt, "page size"),
			watchList: rapid.Bool().Draw(rt, "watch-list"),
			seeded:    rapid.IntRange(0, 5).Draw(rt, "seeded"),
			// A Run that is stopped while its first objects come is not repeated as such.
			steps:    rapid.SliceOfN(rapid.Custom(drawStep).Filter(func(e event) bool { return e.Kind != "restart" }), 0, 30).Draw(rt, "steps"),
			recorder: record.NewRecorder(&file),
			follow:   &lived,
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = l.live(t) })
		if err != nil {
			rt.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			replay, replayed := record.NewReplay[*corev1.ConfigMap](strings.NewReader(file.String()))
			require.NoError(t, replayed)
			copied := store.New(store.ObjectKey[*corev1.ConfigMap])
			defer copied.Follow(&again)()
			stop := start(t, reflector.New(replay, copied, reflector.WithPageSize(l.pageSize)))
			<-replay.Done()
			err = replay.Err()
			stop()
			if err == nil && !maps.Equal(contents(copied), contents(l.store)) {
				err = fmt.Errorf("the store has %v, want %v", contents(copied), contents(l.store))
			}
		})
		if err == nil && again.all() != lived.all() {
			err = fmt.Errorf("commits:\n%s\nwant:\n%s", again.all(), lived.all())
		}
		if err != nil {
			rt.Fatalf("%v\n%s", err, file.String())
		}
	})
}

func contents(c *store.Cache[*corev1.ConfigMap]) map[string]string {
	found := map[string]string{"version": c.ResourceVersion()}
	for key, o := range c.All() {
		found[key.String()] = state(o)
	}
	return found
}

// sharedLife is the result of a reflector of shards.
type sharedLife struct {
	objects  []*corev1.ConfigMap
	version  string
	told     []string // the deletions
	sharding reflector.Sharding
}

// bubble runs a test with a server in a bubble of its own.
func bubble(t *testing.T, test func(*testing.T, *reflectortest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, reflectortest.Start(t, reflectortest.WithBookmarkInterval(time.Hour))) })
}

// deletions notes the deletions that a cache tells of.
type deletions struct{ names []string }

func (d *deletions) Start(*store.Snapshot[*corev1.ConfigMap]) {}

func (d *deletions) Commit(c *store.Commit[*corev1.ConfigMap]) {
	for _, change := range c.Changes {
		if change.Type == store.Deletion {
			d.names = append(d.names, change.Key.Name)
		}
	}
}

// recordShards lets a reflector live through objects that come, change and go.
func recordShards(t *testing.T, server *reflectortest.Server, made makeReflector, opts ...reflector.Option) (recording string, lived sharedLife) {
	t.Helper()
	for n := range 10 {
		require.NoError(t, server.Create(placed(n)))
	}
	var file bytes.Buffer
	s := store.New(store.ObjectKey[*corev1.ConfigMap])
	var told deletions
	s.Follow(&told)
	r := made(s, record.NewRecorder(&file), opts...)
	stop := start(t, r)
	synctest.Wait()
	for n := range 10 {
		object := placed(n)
		if object.Data["color"] = "green"; n%2 == 0 {
			require.NoError(t, server.Update(object))
		} else {
			require.NoError(t, server.Delete(object))
		}
	}
	for n := range 40 { // UIDs are random: this many are never all in the other shard
		require.NoError(t, server.Create(placed(100+n)))
	}
	synctest.Wait()
	sharding := r.State().Sharding
	stop()
	return file.String(), sharedLife{all(s), s.ResourceVersion(), told.names, sharding}
}

// replayShards lets a reflector replay a recording.
func replayShards(t *testing.T, recording string, opts ...reflector.Option) (sharedLife, error) {
	t.Helper()
	replay, err := record.NewReplay[*corev1.ConfigMap](strings.NewReader(recording))
	require.NoError(t, err)
	s := store.New(store.ObjectKey[*corev1.ConfigMap])
	var told deletions
	s.Follow(&told)
	r := reflector.New(replay, s, opts...)
	stop := start(t, r)
	<-replay.Done()
	sharding := r.State().Sharding
	stop()
	return sharedLife{all(s), s.ResourceVersion(), told.names, sharding}, replay.Err()
}

func TestRecordingsOfShardsCanBeReplayed(t *testing.T) {
	for name, made := range map[string]func(*reflectortest.Server) makeReflector{
		"typed": func(server *reflectortest.Server) makeReflector {
			return func(s *store.Cache[*corev1.ConfigMap], to *record.Recorder, opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
				return reflector.New(record.Client(kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps(""), to), s, opts...)
			}
		},
		"resource": func(server *reflectortest.Server) makeReflector { return resourceOf(t, server) },
	} {
		for _, by := range []store.ShardKey{store.ByUID, store.ByNamespace} {
			for _, selects := range []bool{true, false} {
				for _, watchList := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s, %v, server selects %t, watch-list %t", name, by, selects, watchList), func(t *testing.T) {
						bubble(t, func(t *testing.T, server *reflectortest.Server) {
							server.SetSharding(selects)
							opts := []reflector.Option{reflector.WithShard(half(by, 0))}
							if !watchList {
								opts = append(opts, reflector.WithoutWatchList())
							}
							recording, want := recordShards(t, server, made(server), opts...)
							require.NotEmpty(t, want.objects)
							assert.Equal(t, !selects, strings.Contains(recording, `"foreign":`))
							got, err := replayShards(t, recording, opts...)
							require.NoError(t, err)
							assert.Equal(t, want, got)
						})
					})
				}
			}
		}
	}
}

func TestRecordingOfEverythingIsReplayedToAShard(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		bubble(t, func(t *testing.T, server *reflectortest.Server) {
			var opts []reflector.Option
			if !watchList {
				opts = append(opts, reflector.WithoutWatchList())
			}
			recording, everything := recordShards(t, server, resourceOf(t, server), opts...)
			for _, by := range []store.ShardKey{store.ByUID, store.ByNamespace} {
				half := half(by, 0)
				part := reflector.WithShard(half)
				selects := reflector.New(reflector.Client[*corev1.ConfigMap, *corev1.ConfigMapList](nil), store.New(store.ObjectKey[*corev1.ConfigMap]), part).Selects
				var want []*corev1.ConfigMap
				for _, o := range everything.objects {
					if selects(o) {
						want = append(want, o)
					}
				}
				got, err := replayShards(t, recording, append(opts, part)...)
				require.NoError(t, err)
				assert.Equal(t, want, got.objects, by)
				assert.Less(t, len(want), len(everything.objects))
				assert.Equal(t, everything.version, got.version)
				assert.Equal(t, reflector.ShardedByClient, got.sharding)
			}
		})
	}
}

func TestRecordingOfAShardIsNotThatOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		server.SetSharding(true)
		recording, _ := recordShards(t, server, resourceOf(t, server), reflector.WithShard(half(store.ByUID, 0)))
		for name, opts := range map[string][]reflector.Option{"another": {reflector.WithShard(half(store.ByUID, 1))}, "none": nil} {
			got, err := replayShards(t, recording, opts...)
			var difference *record.DifferenceError
			require.ErrorAs(t, err, &difference, name)
			assert.Contains(t, difference.Recorded, "object.metadata.uid")
			assert.Empty(t, got.objects)
		}
	})
}

func all[T any](objects *store.Cache[T]) (list []T) {
	for _, o := range objects.All() {
		list = append(list, o)
	}
	return list
}
