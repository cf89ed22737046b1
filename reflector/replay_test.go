package reflector_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
)

// commits writes down the changes that a store commits. How many of them are one commit depends on
// how many arrive before the reflector looks.
type commits struct {
	mu    sync.Mutex
	lines []string
}

func (c *commits) Start(*store.Snapshot[*corev1.ConfigMap]) {}

func (c *commits) Commit(commit *store.Commit[*corev1.ConfigMap]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range commit.Changes {
		c.lines = append(c.lines, fmt.Sprint(commit.Origin, commit.Initial, change.Type, change.Key, state(change.Prior), state(change.Object)))
	}
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
// compactions and restored backups, and replays them: the store commits the same changes, in the same
// order. A pause of the replayed reflector is not always as long as the recorded one, so that it may send
// another request. Then it gets a DifferenceError, and has committed what the other one did before.
func TestReplayCommitsWhatTheRecordedReflectorDid(t *testing.T) {
	differences := 0
	rapid.Check(t, func(rt *rapid.T) {
		var file bytes.Buffer
		var lived, again commits
		l := life{
			// client-go's decoder reads ahead, and may lose an event that was recorded before a failure. A
			// page of one object may be taken for a probe.
			client:    rapid.SampledFrom([]string{"JSON", "protobuf", "REST"}).Draw(rt, "client"),
			pageSize:  rapid.SampledFrom([]int{0, 2, 500}).Draw(rt, "page size"),
			watchList: rapid.Bool().Draw(rt, "watch-list"),
			seeded:    rapid.IntRange(0, 5).Draw(rt, "seeded"),
			// A Run that is stopped while its first objects come is not repeated as such.
			steps:    rapid.SliceOfN(rapid.Custom(drawStep).Filter(func(e event) bool { return e.Kind != "restart" }), 0, 30).Draw(rt, "steps"),
			recorder: record.NewRecorder(&file),
			follow:   &lived,
		}
		var err error
		synctest.Test(t, func(t *testing.T) {
			if err = l.live(t); err == nil {
				err = l.recorder.Close()
			}
		})
		if err != nil {
			rt.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			replay, replayed := record.NewReplay(strings.NewReader(file.String()))
			require.NoError(t, replayed)
			copy := life{client: l.client, pageSize: l.pageSize, watchList: l.watchList, store: store.New(store.ObjectKey[*corev1.ConfigMap])}
			defer copy.store.Follow(&again)()
			r, made := copy.reflectorOf(replay.Config(), copy.options())
			require.NoError(t, made)
			stop := start(t, r)
			<-replay.Done()
			err = replay.Err()
			stop()
			if err == nil && !maps.Equal(contents(copy.store), contents(l.store)) {
				err = fmt.Errorf("the store has %v, want %v", contents(copy.store), contents(l.store))
			}
		})
		if difference := new(record.DifferenceError); errors.As(err, &difference) && strings.HasPrefix(lived.all(), again.all()) {
			differences++
			return
		}
		if err == nil && again.all() != lived.all() {
			err = fmt.Errorf("commits:\n%s\nwant:\n%s", again.all(), lived.all())
		}
		if err != nil {
			rt.Fatalf("%v\n%s", err, file.String())
		}
	})
	assert.LessOrEqual(t, differences, 5, "of a hundred")
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

// makeReflector makes a reflector with a client of a config.
type makeReflector func(*rest.Config, *store.Cache[*corev1.ConfigMap], ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap]

func resourceOf(config *rest.Config, s *store.Cache[*corev1.ConfigMap], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
	resource, err := client.ForResource[*corev1.ConfigMap](config, configMapResource, "")
	if err != nil {
		panic(err)
	}
	return reflector.New(resource, s, opts...)
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
	recorder := record.NewRecorder(&file)
	config := server.Config()
	config.Wrap(recorder.Wrap)
	r := made(config, s, opts...)
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
	require.NoError(t, recorder.Close())
	return file.String(), sharedLife{all(s), s.ResourceVersion(), told.names, sharding}
}

// replayShards lets a reflector replay a recording.
func replayShards(t *testing.T, recording string, made makeReflector, opts ...reflector.Option) (sharedLife, error) {
	t.Helper()
	replay, err := record.NewReplay(strings.NewReader(recording))
	require.NoError(t, err)
	s := store.New(store.ObjectKey[*corev1.ConfigMap])
	var told deletions
	s.Follow(&told)
	r := made(replay.Config(), s, opts...)
	stop := start(t, r)
	<-replay.Done()
	sharding := r.State().Sharding
	stop()
	return sharedLife{all(s), s.ResourceVersion(), told.names, sharding}, replay.Err()
}

func TestRecordingsOfShardsCanBeReplayed(t *testing.T) {
	for name, made := range map[string]makeReflector{
		"typed": func(config *rest.Config, s *store.Cache[*corev1.ConfigMap], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
			return reflector.New(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), s, opts...)
		},
		"resource": resourceOf,
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
							recording, want := recordShards(t, server, made, opts...)
							require.NotEmpty(t, want.objects)
							got, err := replayShards(t, recording, made, opts...)
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
			recording, everything := recordShards(t, server, resourceOf, opts...)
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
				got, err := replayShards(t, recording, resourceOf, append(opts, part)...)
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
		recording, _ := recordShards(t, server, resourceOf, reflector.WithShard(half(store.ByUID, 0)))
		for name, opts := range map[string][]reflector.Option{"another": {reflector.WithShard(half(store.ByUID, 1))}, "none": nil} {
			got, err := replayShards(t, recording, resourceOf, opts...)
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
