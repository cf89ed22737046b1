package store

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

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
	assert.False(t, c.Snapshot().Complete())
	require.NoError(t, two.Replace(nil, "7"))
	assert.True(t, c.Snapshot().Complete())
	three := partition(t, c, Scope{Namespace: "n3"})
	assert.True(t, c.Snapshot().Complete(), "it stays so")
	require.NoError(t, three.Bookmark("9"))
	assert.Empty(t, three.ResourceVersion(), "nobody knows what is missing")
	require.NoError(t, three.Replace(nil, "9"))
	require.NoError(t, two.Bookmark("8"))

	type head struct{ initial, complete bool }
	var heads []head
	for _, commit := range rec.commits {
		heads = append(heads, head{commit.Initial, commit.Complete})
		assert.Empty(t, commit.ResourceVersion)
	}
	assert.Equal(t, []head{{true, false}, {false, false}, {true, true}, {true, true}, {false, true}}, heads)
	assert.Equal(t, "2", one.ResourceVersion())
	assert.Equal(t, "8", two.ResourceVersion())
}

func TestDroppingWhatEverybodyWaitedForCompletesTheCache(t *testing.T) {
	c := newPods()
	one := partition(t, c, Scope{Namespace: "n1"})
	partition(t, c, Scope{Namespace: "n2"})
	require.NoError(t, one.Replace(nil, "1"))
	rec := follow(c)
	require.False(t, c.Snapshot().Complete())
	c.Drop(Scope{Namespace: "n2"})
	assert.True(t, c.Snapshot().Complete())
	require.Len(t, rec.commits, 1)
	assert.True(t, rec.commits[0].Complete)

	empty := newPods()
	partition(t, empty, Scope{Namespace: "n2"})
	empty.Drop(Scope{Namespace: "n2"})
	assert.False(t, empty.Snapshot().Complete(), "of nothing, nothing is known")
}

func TestPartitionGivesKeysItsCluster(t *testing.T) {
	c := newPods()
	west, east := partition(t, c, Scope{Cluster: "west"}), partition(t, c, Scope{Cluster: "east", Namespace: "n"})
	require.NoError(t, west.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.NoError(t, east.Replace([]*corev1.Pod{pod("n", "a", "u2", "2")}, "2"))
	assert.Equal(t, []string{"east|n/a", "west|n/a"}, names(c.All()))

	assert.True(t, east.Holds(Key{Namespace: "n", Name: "a"}, Version{"u2", "2"}))
	assert.False(t, west.Holds(Key{Cluster: "east", Namespace: "n", Name: "a"}, Version{"u2", "2"}))
	require.NoError(t, east.ReplaceAll(Listing[*corev1.Pod]{Unchanged: []Key{{Namespace: "n", Name: "a"}}, ResourceVersion: "3"}))
	require.NoError(t, west.DeleteKey(Key{Namespace: "n", Name: "a"}))
	assert.Equal(t, []string{"east|n/a"}, names(c.All()))

	lack := []Rejection{{Key: Key{Namespace: "n", Name: "a"}, Err: errUndecodable}}
	require.ErrorContains(t, east.ReplaceAll(Listing[*corev1.Pod]{Lacking: lack, ResourceVersion: "4"}), `"east|n/a": undecodable`)
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

	foreign := pod("n2", "a", "u3", "5")
	for name, write := range map[string]func() error{
		"Add":       func() error { return one.Add(foreign) },
		"Update":    func() error { return one.Update(foreign) },
		"Delete":    func() error { return one.Delete(foreign) },
		"DeleteKey": func() error { return one.DeleteKey(Key{Namespace: "n2", Name: "a"}) },
		"Replace":   func() error { return one.Replace([]*corev1.Pod{foreign}, "5") },
		"Unchanged": func() error {
			return one.ReplaceAll(Listing[*corev1.Pod]{Unchanged: []Key{{Namespace: "n2", Name: "a"}}, ResourceVersion: "5"})
		},
		"cluster": func() error { return one.DeleteKey(Key{Cluster: "c", Namespace: "n1", Name: "a"}) },
	} {
		err := write()
		require.ErrorIs(t, err, ErrOutOfScope, name)
		require.ErrorContains(t, err, "namespace n1", name)
	}
	err := one.Add(foreign)
	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, Version{"u3", "5"}, rejected.Rejections[0].Version)
	assert.Equal(t, "1", one.ResourceVersion())
	got, _ := c.Get(Key{Namespace: "n2", Name: "a"})
	assert.Equal(t, "1", got.ResourceVersion)
}

func TestScopesOfPartitionsDoNotOverlap(t *testing.T) {
	c := newPods()
	p := partition(t, c, Scope{Namespace: "n"})
	assert.Same(t, p, partition(t, c, Scope{Namespace: "n"}))
	assert.Equal(t, Scope{Namespace: "n"}, p.Scope())
	partition(t, c, Scope{Cluster: "west"})
	for _, scope := range []Scope{{}, {Cluster: "west", Namespace: "n"}} {
		_, err := c.Partition(scope)
		require.ErrorIs(t, err, ErrOverlap)
		var scopeError *ScopeError
		require.ErrorAs(t, err, &scopeError)
		assert.Equal(t, scope, scopeError.Scope)
	}
	partition(t, c, Scope{Namespace: "m"})
	partition(t, c, Scope{Cluster: "east", Namespace: "n"})
	assert.Equal(t, "namespace n", Scope{Namespace: "n"}.String())
	assert.Equal(t, "namespace west|n", Scope{"west", "n"}.String())
	assert.Equal(t, "cluster west", Scope{Cluster: "west"}.String())
	assert.Equal(t, "all namespaces", Scope{}.String())
}

func TestDropDeletesTheScopeInOneCommit(t *testing.T) {
	c := newPods()
	one, two, other := partition(t, c, Scope{"west", "n1"}), partition(t, c, Scope{"west", "n2"}), partition(t, c, Scope{"east", "n1"})
	require.NoError(t, one.Replace([]*corev1.Pod{pod("n1", "a", "u1", "1"), pod("n1", "b", "u2", "1")}, "1"))
	require.NoError(t, two.Replace([]*corev1.Pod{pod("n2", "a", "u3", "1")}, "1"))
	require.NoError(t, other.Replace([]*corev1.Pod{pod("n1", "a", "u4", "1")}, "1"))
	index, err := AddIndexAppend(c, "name", func(values []string, p *corev1.Pod) []string { return append(values, p.Name) })
	require.NoError(t, err)
	rec := follow(c)
	before := c.Snapshot()

	changes := c.Drop(Scope{Cluster: "west"})

	want := []string{"Deletion west|n1/a 1", "Deletion west|n1/b 1", "Deletion west|n2/a 1"}
	assert.Equal(t, want, inWords(changes))
	assert.Equal(t, want, rec.changes())
	assert.Len(t, rec.commits, 1)
	assert.Equal(t, []string{"east|n1/a"}, names(c.All()))
	assert.Equal(t, 4, before.Len())
	checkCache(t, c)
	checkIndex(t, &index.reader)

	for _, p := range []*Partition[*corev1.Pod]{one, two} {
		for name, write := range map[string]func() error{
			"Add":     func() error { return p.Add(pod("n1", "a", "u1", "2")) },
			"Replace": func() error { return p.Replace(nil, "2") },
			"Apply":   func() error { return p.Apply(&Batch[*corev1.Pod]{}) },
			"WaitFor": func() error { return p.WaitFor(t.Context(), "1") },
		} {
			require.ErrorIs(t, write(), ErrDropped, name)
		}
	}
	require.NoError(t, other.Add(pod("n1", "b", "u5", "2")))
	assert.Equal(t, 2, c.Len())
	assert.Empty(t, c.Drop(Scope{Cluster: "west"}), "there is nothing left")

	again := partition(t, c, Scope{"west", "n1"})
	assert.NotSame(t, one, again)
	assert.Empty(t, again.ResourceVersion())
	require.NoError(t, again.Replace([]*corev1.Pod{pod("n1", "a", "u1", "1")}, "1"))
	require.ErrorIs(t, one.Replace(nil, "3"), ErrDropped, "the old door stays shut")
	assert.Equal(t, 3, c.Len())
}

func TestDropReleasesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, two := partition(t, c, Scope{Namespace: "n1"}), partition(t, c, Scope{Namespace: "n2"})
		require.NoError(t, one.Replace([]*corev1.Pod{pod("n1", "a", "u", "1")}, "1"))
		errs, gone := make(chan error, 2), make(chan error, 1)
		go func() { errs <- one.WaitFor(t.Context(), "5") }()
		go func() { errs <- one.WaitFor(t.Context(), "6") }()
		go func() { gone <- one.WaitForDeletion(t.Context(), pod("n1", "a", "u", "1")) }()
		ctx, cancel := context.WithCancel(t.Context())
		other := make(chan error, 1)
		go func() { other <- two.WaitFor(ctx, "5") }()
		synctest.Wait()

		c.Drop(Scope{Namespace: "n1"})

		for range 2 {
			err := <-errs
			require.ErrorIs(t, err, ErrDropped)
			var waitError *WaitError
			require.ErrorAs(t, err, &waitError)
			assert.Equal(t, "1", waitError.Reached)
		}
		require.NoError(t, <-gone, "the object is held no more")
		synctest.Wait()
		assert.Empty(t, other, "the others wait on")
		cancel()
		require.ErrorIs(t, <-other, context.Canceled)
		checkQuiet(t, c)
	})
}

func TestDropForgetsWhatIsLackingInItsScope(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	var batch Batch[*corev1.Pod]
	batch.Lack(Rejection{Key: Key{Namespace: "n", Name: "a"}, Err: errUndecodable})
	require.Error(t, c.Apply(&batch))
	require.NoError(t, c.Bookmark("2"))
	require.Equal(t, "1", c.ResourceVersion())
	c.Drop(Scope{Namespace: "m"})
	require.NoError(t, c.Bookmark("2"))
	require.Equal(t, "1", c.ResourceVersion())
	c.Drop(Scope{Namespace: "n"})
	require.NoError(t, c.Bookmark("3"))
	assert.Equal(t, "3", c.ResourceVersion())
}

func TestCacheWaitsForEachPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPods()
		one, two := partition(t, c, Scope{Namespace: "n1"}), partition(t, c, Scope{Namespace: "n2"})
		require.NoError(t, one.Replace(nil, "1"))
		require.NoError(t, two.Replace(nil, "1"))
		done := make(chan error, 1)
		go func() { done <- c.View().WaitFor(t.Context(), "5") }()
		synctest.Wait()
		require.NoError(t, one.Bookmark("5"))
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, two.Bookmark("6"))
		require.NoError(t, <-done)

		object := pod("n2", "a", "u", "7")
		go func() { done <- c.View().WaitForObject(t.Context(), object) }()
		synctest.Wait()
		require.NoError(t, one.Bookmark("9"))
		synctest.Wait()
		assert.Empty(t, done, "that partition has nothing to say about the object")
		require.NoError(t, two.Add(object))
		require.NoError(t, <-done)
		go func() { done <- c.View().WaitForDeletion(t.Context(), object) }()
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, two.DeleteKey(Key{Namespace: "n2", Name: "a"}))
		require.NoError(t, <-done)
	})
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
