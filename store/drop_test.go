package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

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
	assert.Equal(t, rejectedKeys{{Namespace: "m", Name: "a"}: true}, c.whole.rejected)
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
