package store

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold store-S10.

func partition[T any](t *testing.T, c *Cache[T], scope Scope) *Partition[T] {
	p, err := c.Partition(scope)
	require.NoError(t, err)
	return p
}

func TestPartitionsDoNotDeleteEachOthersObjects(t *testing.T) {
	// Two reflectors at full speed, each of which relists and watches its own
	// namespace.
	c := newPods()
	rec := follow(c)
	const rounds = 200
	var writers sync.WaitGroup
	for _, namespace := range []string{"n1", "n2"} {
		p := partition(t, c, Scope{Namespace: namespace})
		writers.Go(func() {
			for i := 1; i <= rounds; i++ {
				version := strconv.Itoa(i)
				if err := p.Replace([]*corev1.Pod{pod(namespace, "a", "u"+namespace, version), pod(namespace, version, "u"+version, version)}, version); err != nil {
					t.Error(err)
				}
				if err := p.Update(pod(namespace, "a", "u"+namespace, version+"0")); err != nil {
					t.Error(err)
				}
				if got := p.ResourceVersion(); got != version+"0" {
					t.Errorf("partition %v is at %q", p.Scope(), got)
				}
				if n := len(names(c.Namespace(namespace))); n != 2 {
					t.Errorf("%d objects", n)
				}
			}
		})
	}
	writers.Wait()
	assert.Equal(t, []string{"n1/200", "n1/a", "n2/200", "n2/a"}, names(c.All()))
	assert.Empty(t, rec.illegal)
	assert.Empty(t, c.ResourceVersion(), "there is none for both")
	checkCache(t, c)
}

func TestPartitionsAreInitialAndCompleteByThemselves(t *testing.T) {
	c := newPods()
	rec := follow(c)
	one, two := partition(t, c, Scope{Namespace: "n1"}), partition(t, c, Scope{Namespace: "n2"})
	require.NoError(t, one.Replace([]*corev1.Pod{pod("n1", "a", "u1", "1")}, "1"))
	require.NoError(t, one.Replace(nil, "2"))
	assert.False(t, c.Snapshot().Synced())
	require.NoError(t, two.Replace(nil, "7"))
	assert.True(t, c.Snapshot().Synced())
	three := partition(t, c, Scope{Namespace: "n3"})
	assert.True(t, c.Snapshot().Synced(), "it stays so")
	require.NoError(t, three.Bookmark("9"))
	assert.Empty(t, three.ResourceVersion(), "nobody knows what is missing")
	require.NoError(t, three.Replace(nil, "9"))
	require.NoError(t, two.Bookmark("8"))

	type head struct{ initial, complete bool }
	var heads []head
	for _, commit := range rec.commits {
		heads = append(heads, head{commit.Initial, commit.Synced})
		assert.Empty(t, commit.ResourceVersion)
	}
	assert.Equal(t, []head{{true, false}, {false, false}, {true, true}, {true, true}, {false, true}}, heads)
	assert.Equal(t, "2", one.ResourceVersion())
	assert.Equal(t, "8", two.ResourceVersion())
}

func TestPartitionGivesKeysItsCluster(t *testing.T) {
	c := newPods()
	west, east := partition(t, c, Scope{Cluster: "west"}), partition(t, c, Scope{Cluster: "east", Namespace: "n"})
	require.NoError(t, west.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.NoError(t, (list[*corev1.Pod]{Objects: []*corev1.Pod{pod("n", "a", "u2", "2")}, Told: []Write[*corev1.Pod]{{Hash: 7}}, ResourceVersion: "2"}).to(east))
	assert.Equal(t, []string{"east|n/a", "west|n/a"}, names(c.All()))

	assert.True(t, east.Has(Key{Namespace: "n", Name: "a"}, Version{"u2", "2"}, 7))
	assert.False(t, west.Has(Key{Cluster: "east", Namespace: "n", Name: "a"}, Version{"u2", "2"}, 7))
	require.NoError(t, (list[*corev1.Pod]{Unchanged: []Key{{Namespace: "n", Name: "a"}}, ResourceVersion: "3"}).to(east))
	require.NoError(t, west.DeleteKey(Key{Namespace: "n", Name: "a"}))
	assert.Equal(t, []string{"east|n/a"}, names(c.All()))

	lack := []Rejection{{Key: Key{Namespace: "n", Name: "a"}, Err: errUndecodable}}
	require.ErrorContains(t, (list[*corev1.Pod]{Failed: lack, ResourceVersion: "4"}).to(east), `"east|n/a": undecodable`)
	assert.Equal(t, 1, c.Len(), "what cannot be had stays")
	assert.Equal(t, "3", east.ResourceVersion())
	require.NoError(t, east.Update(pod("n", "a", "u2", "5")))
	assert.Equal(t, "5", east.ResourceVersion())
}

func TestPartitionRejectsWhatIsOutOfItsScope(t *testing.T) {
	c := newPods()
	one, two := partition(t, c, Scope{Namespace: "n1"}), partition(t, c, Scope{Namespace: "n2"})
	require.NoError(t, two.Replace([]*corev1.Pod{pod("n2", "a", "u2", "1")}, "1"))
	require.NoError(t, one.Replace(nil, "1"))

	foreign, foreignKey := pod("n2", "a", "u3", "5"), Key{Namespace: "n2", Name: "a"}
	fail := func() error { return apply(one, Write[*corev1.Pod]{Key: foreignKey, Err: errUndecodable}) }
	for name, write := range map[string]func() error{
		"Add":       func() error { return one.Add(foreign) },
		"Update":    func() error { return one.Update(foreign) },
		"Delete":    func() error { return one.Delete(foreign) },
		"DeleteKey": func() error { return one.DeleteKey(foreignKey) },
		"Replace":   func() error { return one.Replace([]*corev1.Pod{foreign}, "5") },
		"Unchanged": func() error {
			return (list[*corev1.Pod]{Unchanged: []Key{foreignKey}, ResourceVersion: "5"}).to(one)
		},
		"Err": fail,
		"Err in a list": func() error {
			return (list[*corev1.Pod]{Failed: []Rejection{{Key: foreignKey, Err: errUndecodable}}, ResourceVersion: "5"}).to(one)
		},
		"cluster": func() error { return one.DeleteKey(Key{Cluster: "c", Namespace: "n1", Name: "a"}) },
	} {
		err := write()
		require.ErrorIs(t, err, ErrOutOfScope, name)
		require.ErrorContains(t, err, "namespace n1", name)
		require.Empty(t, one.rejected, name)
	}
	require.ErrorIs(t, fail(), errUndecodable)
	err := one.Add(foreign)
	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, Version{"u3", "5"}, rejected.Rejections[0].Version)
	assert.Equal(t, "5", one.ResourceVersion(), "that of the lists: the partition lacks nothing")
	got, _ := c.Get(foreignKey)
	assert.Equal(t, "1", got.ResourceVersion)
	require.NoError(t, one.Bookmark("6"))
	assert.Equal(t, "6", one.ResourceVersion())
	require.Error(t, one.Add(nil))
	require.NoError(t, one.Bookmark("7"))
	assert.Equal(t, "6", one.ResourceVersion(), "a rejected object without a key may belong to the scope")
}

func TestScopesOfPartitionsDoNotOverlap(t *testing.T) {
	c := newPods()
	p := partition(t, c, Scope{Namespace: "n"})
	assert.Same(t, p, partition(t, c, Scope{Namespace: "n"}))
	assert.Equal(t, Scope{Namespace: "n"}, p.Scope())
	partition(t, c, Scope{Cluster: "west"})
	for _, scope := range []Scope{{}, {Cluster: "west", Namespace: "n"}} {
		_, err := c.Partition(scope)
		require.ErrorIs(t, err, errOverlap)
		require.ErrorContains(t, err, "scope of "+scope.String())
	}
	partition(t, c, Scope{Namespace: "m"})
	partition(t, c, Scope{Cluster: "east", Namespace: "n"})
	assert.Equal(t, "namespace n", Scope{Namespace: "n"}.String())
	assert.Equal(t, "namespace west|n", Scope{Cluster: "west", Namespace: "n"}.String())
	assert.Equal(t, "cluster west", Scope{Cluster: "west"}.String())
	assert.Equal(t, "all namespaces", Scope{}.String())
}

func TestTheFirstPartitionForgetsTheResourceVersion(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("n", "a", "u1", "1"), pod("m", "a", "u2", "1")}, "10"))
	partition(t, c, Scope{Namespace: "n"})
	dropped(t, c, Scope{Namespace: "n"})
	assert.Equal(t, 1, c.Len())
	assert.Empty(t, c.ResourceVersion(), "nobody told the cache of anything since 10")
	require.NoError(t, c.Bookmark("20"))
	assert.Empty(t, c.ResourceVersion())
	require.NoError(t, c.Replace(nil, "21"))
	assert.Equal(t, "21", c.ResourceVersion())
}

func TestWhatIsInAPartitionIsNotWrittenThroughTheCache(t *testing.T) {
	c := newPods()
	p := partition(t, c, Scope{Namespace: "n"})
	require.NoError(t, p.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	rec := follow(c)
	for name, write := range map[string]func() error{
		"Add":       func() error { return c.Add(pod("n", "b", "u2", "2")) },
		"Update":    func() error { return c.Update(pod("n", "a", "u1", "2")) },
		"Delete":    func() error { return c.Delete(pod("n", "a", "u1", "2")) },
		"DeleteKey": func() error { return c.DeleteKey(Key{Namespace: "n", Name: "a"}) },
		"Delete by key": func() error {
			var batch writes[*corev1.Pod]
			batch.Append(Write[*corev1.Pod]{Type: Deletion, FinalStateKnown: true, Key: Key{Namespace: "n", Name: "a"}})
			return batch.to(c)
		},
		"Replace":    func() error { return c.Replace(nil, "2") },
		"ReplaceAll": func() error { return (list[*corev1.Pod]{ResourceVersion: "2"}).to(c) },
	} {
		err := write()
		require.ErrorIs(t, err, errOverlap, name)
		require.Empty(t, rec.commits, name)
	}
	require.ErrorIs(t, c.Replace(nil, "2"), errOverlap)
	require.ErrorIs(t, c.DeleteKey(Key{Namespace: "n", Name: "a"}), errOverlap)
	require.ErrorContains(t, c.DeleteKey(Key{Namespace: "n", Name: "a"}), "scope of namespace n")
	assert.Empty(t, c.own.rejected)

	require.NoError(t, c.Add(pod("m", "a", "u3", "3")), "nobody's")
	require.NoError(t, p.Replace(nil, "4"))
	assert.Equal(t, []string{"m/a"}, names(c.All()))
	dropped(t, c, Scope{Namespace: "n"})
	require.NoError(t, c.Replace([]*corev1.Pod{pod("n", "b", "u2", "5")}, "5"))
	assert.Equal(t, []string{"n/b"}, names(c.All()))
}

func TestFirstReplaceOfAPartitionTakesOverWhatIsThere(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("n1", "a", "u1", "1"), pod("n2", "b", "u2", "1")}, "1"))
	p := partition(t, c, Scope{Namespace: "n1"})
	assert.Equal(t, 2, c.Len())
	assert.Empty(t, c.ResourceVersion())
	require.NoError(t, p.Replace(nil, "2"))
	assert.Equal(t, []string{"n2/b"}, names(c.All()))
}

func TestCommitTellsWhichPartitionWasWritten(t *testing.T) {
	c := New(ObjectKey[*corev1.Pod])
	r := follow(c)
	require.NoError(t, c.Replace(nil, "1"))
	west, err := c.Partition(Scope{Cluster: "west"})
	require.NoError(t, err)
	require.NoError(t, west.Replace(nil, "7"))
	require.Len(t, c.Partitions(), 1)
	err = c.Drop(Scope{Cluster: "west"})
	require.NoError(t, err)
	assert.Empty(t, c.Partitions())
	require.Len(t, r.commits, 3)
	assert.Nil(t, r.commits[0].Partition)
	assert.Same(t, west, r.commits[1].Partition)
	assert.Equal(t, "7", r.commits[1].Partition.ResourceVersion())
	assert.Nil(t, r.commits[2].Partition)
}

func TestListForADroppedPartitionEndsAtOnce(t *testing.T) {
	c := newPods()
	p := partition(t, c, Scope{Namespace: "n"})
	batch, err := begun(p, pod("n", "a", "u", "1"))
	require.NoError(t, err)
	require.NoError(t, c.Drop(Scope{Namespace: "n"}))
	require.ErrorIs(t, batch.Write(adding(pod("n", "b", "u", "1"))), errDropped)
	require.ErrorIs(t, batch.Commit("9"), errDropped)
}

// These tests hold store-S10 when a scope is dropped.

func dropped[T any](t *testing.T, c *Cache[T], scope Scope) []Change[T] {
	var told collector[T]
	stop := c.Follow(&told)
	defer stop()
	require.NoError(t, c.Drop(scope))
	return told.changes
}

func TestDroppingWhatEverybodyWaitedForCompletesTheCache(t *testing.T) {
	c := newPods()
	one := partition(t, c, Scope{Namespace: "n1"})
	partition(t, c, Scope{Namespace: "n2"})
	require.NoError(t, one.Replace(nil, "1"))
	rec := follow(c)
	require.False(t, c.Snapshot().Synced())
	dropped(t, c, Scope{Namespace: "n2"})
	assert.True(t, c.Snapshot().Synced())
	require.Len(t, rec.commits, 1)
	assert.True(t, rec.commits[0].Synced)

	empty := newPods()
	partition(t, empty, Scope{Namespace: "n2"})
	dropped(t, empty, Scope{Namespace: "n2"})
	assert.False(t, empty.Snapshot().Synced(), "of nothing, nothing is known")
}

func TestDropDeletesTheScopeInOneCommit(t *testing.T) {
	c := newPods()
	one, two, other := partition(t, c, Scope{Cluster: "west", Namespace: "n1"}), partition(t, c, Scope{Cluster: "west", Namespace: "n2"}), partition(t, c, Scope{Cluster: "east", Namespace: "n1"})
	require.NoError(t, one.Replace([]*corev1.Pod{pod("n1", "a", "u1", "1"), pod("n1", "b", "u2", "1")}, "1"))
	require.NoError(t, two.Replace([]*corev1.Pod{pod("n2", "a", "u3", "1")}, "1"))
	require.NoError(t, other.Replace([]*corev1.Pod{pod("n1", "a", "u4", "1")}, "1"))
	index, err := AddIndex(c, "name", func(p *corev1.Pod) []string { return []string{p.Name} })
	require.NoError(t, err)
	rec := follow(c)
	before := c.Snapshot()

	changes := dropped(t, c, Scope{Cluster: "west"})

	want := []string{"Deletion west|n1/a 1", "Deletion west|n1/b 1", "Deletion west|n2/a 1"}
	assert.Equal(t, want, inWords(changes))
	assert.Equal(t, want, rec.changes())
	assert.Len(t, rec.commits, 1)
	assert.Equal(t, []string{"east|n1/a"}, names(c.All()))
	assert.Equal(t, 4, before.Len())
	checkCache(t, c)
	checkIndex(t, index)

	for _, p := range []*Partition[*corev1.Pod]{one, two} {
		for name, write := range map[string]func() error{
			"Add":     func() error { return p.Add(pod("n1", "a", "u1", "2")) },
			"Replace": func() error { return p.Replace(nil, "2") },
			"Batch":   func() error { return apply(p) },
		} {
			require.ErrorIs(t, write(), errDropped, name)
		}
	}
	require.NoError(t, other.Add(pod("n1", "b", "u5", "2")))
	assert.Equal(t, 2, c.Len())
	assert.Empty(t, dropped(t, c, Scope{Cluster: "west"}), "there is nothing left")

	again := partition(t, c, Scope{Cluster: "west", Namespace: "n1"})
	assert.NotSame(t, one, again)
	assert.Empty(t, again.ResourceVersion())
	require.NoError(t, again.Replace([]*corev1.Pod{pod("n1", "a", "u1", "1")}, "1"))
	require.ErrorIs(t, one.Replace(nil, "3"), errDropped, "the old door stays shut")
	assert.Equal(t, 3, c.Len())
}

// While a commit changes the tree of an index, it calls the index's compare function, and readers see the
// state before. That includes what Drop changes beside the objects.
func TestDropIsOneStepForReaders(t *testing.T) {
	for name, tt := range map[string]struct {
		objects    int
		partitions []string
	}{
		"small, with partitions":    {2, []string{"n", "m"}},
		"large, with partitions":    {largeCommit + 1, []string{"n", "m"}},
		"small, without partitions": {2, nil},
		"large, without partitions": {largeCommit + 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			objects := []*corev1.Pod{pod("m", "a", "u", "1")}
			for i := range tt.objects {
				objects = append(objects, pod("n", strconv.Itoa(i), strconv.Itoa(i), "1"))
			}
			if len(tt.partitions) == 0 {
				require.NoError(t, c.Replace(objects, "10"))
				require.Error(t, apply(c, Write[*corev1.Pod]{Key: Key{Namespace: "n", Name: "x"}, Err: errUndecodable}))
			} else {
				for _, object := range objects { // as package persist does before the first list
					require.NoError(t, c.Add(object))
				}
				for _, namespace := range tt.partitions {
					partition(t, c, Scope{Namespace: namespace})
				}
				require.NoError(t, c.partitions[1].Replace(objects[:1], "10")) // the other one is never listed
			}
			type state struct {
				objects, partitions int
				synced              bool
				version             string
				rejected            []Key
			}
			now := func() state {
				c.mu.RLock()
				synced := c.synced
				c.mu.RUnlock()
				return state{c.Len(), len(c.Partitions()), synced, c.ResourceVersion(), c.Rejected()}
			}
			var seen []state
			watching := false
			_, err := AddIndexFunc(c, "name", func(p *corev1.Pod) []string { return []string{p.Name} }, func(a, b string) int {
				if watching {
					seen = append(seen, now())
				}
				return strings.Compare(a, b)
			})
			require.NoError(t, err)
			before := now()
			watching = true
			require.NoError(t, c.Drop(Scope{Namespace: "n"}))
			watching = false
			require.NotEmpty(t, seen)
			for _, s := range seen {
				require.Equal(t, before, s)
			}
			after := now()
			assert.Equal(t, 1, after.objects)
			assert.NotEqual(t, before.synced, after.synced)
			assert.Empty(t, after.rejected)
			checkCache(t, c)
		})
	}
}

func TestDropInACacheWithoutPartitionsForgetsTheResourceVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		scope  Scope
		forget bool
	}{
		"held":           {Scope{Namespace: "n"}, true},
		"lacking":        {Scope{Namespace: "l"}, true},
		"all":            {Scope{}, true},
		"nothing":        {Scope{Namespace: "m"}, false},
		"nothing at all": {Scope{Cluster: "west"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			require.NoError(t, c.Replace([]*corev1.Pod{pod("n", "a", "u1", "1"), pod("o", "a", "u2", "1")}, "10"))
			var batch writes[*corev1.Pod]
			batch.Fail(Rejection{Key: Key{Namespace: "l", Name: "a"}, Err: errUndecodable})
			require.Error(t, batch.to(c))
			rec := follow(c)
			dropped(t, c, tt.scope)
			assert.Equal(t, !tt.forget, c.Snapshot().Synced(), "what is deleted here is on the server")
			assert.Equal(t, !tt.forget, rec.commits[0].Synced)
			if !tt.forget {
				assert.Equal(t, "10", c.ResourceVersion())
				return
			}
			assert.Empty(t, c.ResourceVersion(), "a watch from 10 would not tell of it")
			require.NoError(t, c.Bookmark("11"))
			assert.Empty(t, c.ResourceVersion())
			require.NoError(t, c.Replace(nil, "12"))
			require.NoError(t, c.Bookmark("13"))
			assert.Equal(t, "13", c.ResourceVersion())
			assert.True(t, c.Snapshot().Synced())
			assert.True(t, rec.commits[1].Initial)
		})
	}
}

func TestDropForgetsWhatIsLackingInItsScope(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	var batch writes[*corev1.Pod]
	batch.Fail(Rejection{Key: Key{Namespace: "n", Name: "a"}, Err: errUndecodable})
	batch.Fail(Rejection{Key: Key{Namespace: "m", Name: "a"}, Err: errUndecodable})
	require.Error(t, batch.to(c))
	dropped(t, c, Scope{Namespace: "n"})
	assert.Equal(t, rejectedKeys{{Namespace: "m", Name: "a"}: true}, c.own.rejected)
}

func TestDropOfAPartOfAPartitionIsRefused(t *testing.T) {
	c := newPods()
	west, n := partition(t, c, Scope{Cluster: "west"}), partition(t, c, Scope{Namespace: "n"})
	require.NoError(t, west.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.NoError(t, n.Replace([]*corev1.Pod{pod("n", "a", "u2", "1")}, "1"))
	rec := follow(c)
	err := c.Drop(Scope{Cluster: "west", Namespace: "n"})
	require.ErrorIs(t, err, errOverlap)
	assert.EqualError(t, err, "scope of namespace west|n: "+errOverlap.Error())
	assert.Empty(t, rec.commits)
	assert.Equal(t, 2, c.Len())
	require.NoError(t, west.Bookmark("2"))
	assert.Len(t, dropped(t, c, Scope{}), 1, "it has one without a cluster only")
	assert.Equal(t, []string{"west|n/a"}, names(c.All()))
}

func TestDropSaysThatTheObjectsOfItsScopeLeft(t *testing.T) {
	c := newPods()
	stays, goes := partition(t, c, Scope{Namespace: "stays"}), partition(t, c, Scope{Namespace: "goes"})
	require.NoError(t, stays.Replace([]*corev1.Pod{pod("stays", "a", "u1", "1")}, "1"))
	require.NoError(t, goes.Replace([]*corev1.Pod{pod("goes", "b", "u2", "1"), pod("goes", "c", "u3", "1")}, "1"))
	require.NoError(t, goes.Delete(pod("goes", "c", "u3", "2")))
	rec := follow(c)
	changes := dropped(t, c, goes.Scope())
	require.Len(t, changes, 1)
	assert.Equal(t, Key{Namespace: "goes", Name: "b"}, changes[0].Key)
	assert.True(t, changes[0].OutOfScope)
	assert.False(t, changes[0].FinalStateKnown)
	require.NoError(t, stays.Delete(pod("stays", "a", "u1", "3")))
	require.Len(t, rec.all, 2)
	assert.True(t, rec.all[0].OutOfScope, "followers are told as well")
	assert.False(t, rec.all[1].OutOfScope, "this one is gone from the cluster")
	assert.Zero(t, c.Len())
}
