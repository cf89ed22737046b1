package persist

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/storetest"
)

type object = storetest.Object

// open opens a store of the suite's objects, and closes it with the test.
func open(t *testing.T, path string) *Store[*object] {
	t.Helper()
	s, err := Open(path, storetest.ClusterKey, Options[*object]{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func fresh(t *testing.T) string { return filepath.Join(t.TempDir(), "store") }

// run lets a store write until the test ends, or until the returned function is called.
func run(t *testing.T, s interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// held returns what a store holds, by value.
func held(s store.Reader[*object]) map[store.Key]object {
	all := map[store.Key]object{}
	for key, o := range s.All() {
		all[key] = *o
	}
	return all
}

func TestConformance(t *testing.T) {
	dir, n := t.TempDir(), 0
	openNext := func() *Store[*object] {
		n++
		s, err := Open(filepath.Join(dir, fmt.Sprint(n)), store.ObjectKey[*object], Options[*object]{MaxUnwritten: 4096})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
	t.Run("store", func(t *testing.T) {
		storetest.RunBatches(t, func() (store.Store[*object], store.Reader[*object]) {
			s := openNext()
			return s, s
		})
	})
	t.Run("partition", func(t *testing.T) {
		storetest.RunBatches(t, func() (store.Store[*object], store.Reader[*object]) {
			s := openNext()
			elsewhere, err := s.Partition(store.Scope{Cluster: "elsewhere"})
			require.NoError(t, err)
			require.NoError(t, elsewhere.Replace(nil, "1000000"))
			here, err := s.Partition(store.Scope{})
			require.NoError(t, err)
			return here, partitioned{s, here}
		})
	})
}

// partitioned reads a store with the resource version of one of its partitions.
type partitioned struct {
	*Store[*object]
	part store.Store[*object]
}

func (p partitioned) ResourceVersion() string { return p.part.ResourceVersion() }

func TestNextStoreFindsWhatThisOneHeld(t *testing.T) {
	path := fresh(t)
	s := open(t, path)
	assert.Empty(t, held(s))
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5"), storetest.New("n", "b", "2", "6"), storetest.New("m", "c", "3", "7")}, "9"))
	require.NoError(t, s.Update(storetest.New("n", "a", "1", "5").At("10")))
	require.NoError(t, s.Delete(storetest.New("n", "b", "2", "11")))
	require.NoError(t, s.Bookmark("15"))
	want := held(s)
	require.NoError(t, s.Close())

	s = open(t, path)
	assert.Equal(t, want, held(s))
	assert.Equal(t, "15", s.ResourceVersion())
	state := s.State()
	assert.True(t, state.Stale)
	assert.Equal(t, 2, state.Loaded)
	assert.False(t, s.Has(store.Key{Namespace: "m", Name: "c"}, store.Version{UID: "3", ResourceVersion: "7"}, 7), "no file knows the hashes of bytes")
}

func TestVersionsThatObjectsDoNotTellSurvive(t *testing.T) {
	path := fresh(t)
	key := func(name string) (store.Key, error) { return store.Key{Name: name}, nil }
	s, err := Open(path, key, Options[string]{})
	require.NoError(t, err)
	names := decorate.Transform(s, store.ObjectKey[*object], func(o *object) (string, error) { return o.Name, nil })
	require.NoError(t, names.Replace([]*object{storetest.New("", "a", "1", "5")}, "9"))
	require.NoError(t, s.Close())

	s, err = Open(path, key, Options[string]{})
	require.NoError(t, err)
	defer s.Close()
	for change := range s.Cache().Snapshot().Changes() {
		assert.Equal(t, store.Version{UID: "1", ResourceVersion: "5"}, change.Version)
	}
}

func TestFollowersHearOfWhatWasLoadedAndThenOfWhatIsMissing(t *testing.T) {
	path := fresh(t)
	s := open(t, path)
	a, b := storetest.New("n", "a", "1", "5"), storetest.New("n", "b", "2", "6")
	require.NoError(t, s.Replace([]*object{a, b}, "9"))
	require.NoError(t, s.Close())

	s = open(t, path)
	queues := eventqueue.Follow(s.Cache())
	defer queues.Close()
	next := func(n int) (told []string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for e := range queues.Consume(ctx) {
			if told = append(told, fmt.Sprintf("%v %v initial=%t", e.Type, e.Key.Name, e.Initial)); len(told) == n {
				cancel()
			}
		}
		return told
	}
	assert.Equal(t, []string{"Addition a initial=true", "Addition b initial=true"}, next(2))
	require.NoError(t, s.Replace([]*object{a, storetest.New("n", "c", "3", "15")}, "20"))
	assert.Equal(t, []string{"Deletion b initial=false", "Addition c initial=false"}, next(2))
	assert.Zero(t, queues.Len(), "nothing of what did not change")
}

func TestPartitionsHaveTheirVersionsInTheFile(t *testing.T) {
	path := fresh(t)
	s := open(t, path)
	west, err := s.Partition(store.Scope{Cluster: "west"})
	require.NoError(t, err)
	east, err := s.Partition(store.Scope{Cluster: "east", Namespace: "n"})
	require.NoError(t, err)
	require.NoError(t, west.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	require.NoError(t, east.Replace([]*object{storetest.New("n", "a", "2", "105")}, "109"))
	require.NoError(t, east.Bookmark("110"))
	want := held(s)
	require.Len(t, want, 2)
	require.NoError(t, s.Close())

	s = open(t, path)
	assert.Equal(t, want, held(s))
	assert.ElementsMatch(t, []store.Scope{{Cluster: "west"}, {Cluster: "east", Namespace: "n"}}, s.Scopes())
	west, err = s.Partition(store.Scope{Cluster: "west"})
	require.NoError(t, err)
	east, err = s.Partition(store.Scope{Cluster: "east", Namespace: "n"})
	require.NoError(t, err)
	assert.Equal(t, "9", west.ResourceVersion())
	assert.Equal(t, "110", east.ResourceVersion())
	west.(interface{ Resumed() }).Resumed()
	assert.True(t, s.State().Stale, "nothing was heard of the other one")
	require.NoError(t, east.Bookmark("110"))
	assert.False(t, s.State().Stale)

	err = s.Drop(store.Scope{Cluster: "east"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s = open(t, path)
	assert.Equal(t, []store.Scope{{Cluster: "west"}}, s.Scopes())
	assert.Len(t, held(s), 1)
}

func TestStaleUntilTheServerWasHeardOf(t *testing.T) {
	for name, contact := range map[string]func(*Store[*object]) error{
		"list":     func(s *Store[*object]) error { return s.Replace(nil, "1") },
		"change":   func(s *Store[*object]) error { return s.Add(storetest.New("n", "a", "1", "5")) },
		"bookmark": func(s *Store[*object]) error { return s.Bookmark("1") },
		"watch":    func(s *Store[*object]) error { s.Resumed(); return nil },
		"watch, through a decorator": func(s *Store[*object]) error {
			same := func(o *object) (*object, error) { return o, nil }
			decorate.Transform(s, store.ObjectKey[*object], same).(interface{ Resumed() }).Resumed()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, fresh(t))
			assert.True(t, s.State().Stale)
			require.NoError(t, contact(s))
			assert.False(t, s.State().Stale)
		})
	}
}

func TestFileIsForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache", "deep", "store")
	open(t, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing else is left there")
}

// configMap returns a ConfigMap at a version; as it is created if that is 0.
func configMap(name string, version int) *corev1.ConfigMap {
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
		Data:       map[string]string{"version": fmt.Sprint(version)},
	}
	if version > 0 {
		c.UID, c.ResourceVersion = types.UID("u-"+name), fmt.Sprint(version)
	}
	return c
}
