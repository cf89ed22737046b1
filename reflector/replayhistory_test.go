package reflector_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
