package store

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

var errUndecodable = errors.New("undecodable")

// inWords says in words what changes mean.
func inWords(changes []Change[*corev1.Pod]) []string { return (&recorder{all: changes}).changes() }

func TestBatchIsOneCommitOfAllItsWrites(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "b", "u2", "1"), pod("", "c", "u3", "1")}, "1"))
	rec := follow(c)
	var batch writes[*corev1.Pod]
	batch.Add(pod("", "a", "u1", "2"))
	batch.Update(pod("", "b", "u2", "3"))
	batch.Delete(pod("", "c", "u3", "4"))
	batch.Bookmark("5")
	batch.DeleteKey(Key{Name: "a"})

	changes, err := applied(c, &batch)

	require.NoError(t, err)
	want := []string{"Addition a 2", "Modification b 1->3", "Deletion c 4", "Deletion a 2"}
	assert.Equal(t, want, inWords(changes))
	assert.True(t, changes[2].FinalStateKnown)
	assert.False(t, changes[3].FinalStateKnown)
	assert.Len(t, rec.commits, 1)
	assert.Equal(t, want, rec.changes())
	assert.Equal(t, "5", c.ResourceVersion())
	assert.Equal(t, []string{"b"}, names(c.All()))
}

func TestBatchTellsEveryWriteOfOneKey(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1")}, "1"))
	rec := follow(c)
	var batch writes[*corev1.Pod]
	batch.Update(pod("", "a", "u1", "2"))
	batch.Update(pod("", "a", "u2", "3"))
	batch.Delete(pod("", "a", "u2", "4"))
	batch.Add(pod("", "a", "u3", "5"))

	changes, err := applied(c, &batch)

	require.NoError(t, err)
	assert.Equal(t, []string{"Modification a 1->2", "Deletion a 2", "Addition a 3", "Deletion a 4", "Addition a 5"}, inWords(changes))
	assert.Empty(t, rec.illegal)
	assert.Equal(t, "3", changes[3].Prior.ResourceVersion)
	for i, uid := range []string{"u1", "u1", "u2", "u2", "u3"} {
		assert.Equal(t, uid, string(changes[i].Version.UID), i)
	}
	assert.Equal(t, "5", c.ResourceVersion())
	checkCache(t, c)
}

func TestWriteCarriesTheVersionOfAnObjectWithoutOne(t *testing.T) {
	c := New(bookKey)
	require.NoError(t, c.Replace(nil, "1"))
	key, version := Key{Namespace: "a", Name: "1"}, Version{UID: "u", ResourceVersion: "2"}
	var batch writes[*book]
	batch.Append(Write[*book]{Type: Modification, Object: &book{author: "a", title: "1"}, Version: version})
	require.NoError(t, batch.to(c))
	assert.True(t, c.Has(key, version))
	assert.False(t, c.Has(key, Version{UID: "u", ResourceVersion: "3"}))
	assert.False(t, c.Has(key, Version{}))
	assert.False(t, c.Has(Key{Name: "none"}, version))
	assert.Equal(t, "2", c.ResourceVersion())

	batch.Reset()
	batch.Append(Write[*book]{Type: Modification, Object: &book{author: "a", title: "1"}, Version: Version{UID: "other", ResourceVersion: "3"}})
	batch.Append(Write[*book]{Type: Deletion, FinalStateKnown: true, Object: &book{author: "a", title: "1"}, Version: Version{UID: "other", ResourceVersion: "4"}})
	changes, err := applied(c, &batch)
	require.NoError(t, err)
	var got []string
	for _, change := range changes {
		got = append(got, fmt.Sprintf("%v %v %v", change.Type, change.Version, change.FinalStateKnown))
	}
	assert.Equal(t, []string{"Deletion {u 2} false", "Addition {other 3} false", "Deletion {other 4} true"}, got)
	assert.Equal(t, "4", c.ResourceVersion())
}

func TestBatchIsUsedAgain(t *testing.T) {
	for _, replace := range []bool{false, true} {
		c := newPods()
		batch, own := begin[*corev1.Pod](c, replace)
		require.True(t, own)
		require.NoError(t, batch.Write(adding(pod("", "discarded", "u1", "1"))))
		batch.Discard()
		require.NoError(t, batch.Write(adding(pod("", "a", "u2", "2"))))
		require.NoError(t, batch.Commit("2"))
		batch.Discard()
		require.NoError(t, batch.Write(adding(pod("", "b", "u3", "3"))))
		require.NoError(t, batch.Commit("3"))
		want := []string{"a", "b"}
		if replace {
			want = want[1:]
		}
		assert.Equal(t, want, names(c.All()))
	}
}

func TestBatchKeepsNothingOfItsWrites(t *testing.T) {
	c := newPods()
	batch := &watchBatch[*corev1.Pod]{of: c.whole}
	require.NoError(t, batch.Write(adding(pod("", "a", "u1", "1"))))
	room := batch.writes[:1]
	require.NoError(t, batch.Commit("1"))
	assert.Equal(t, make([]Write[*corev1.Pod], 1), room)
}

func TestLargeCommitsAreSeenWholeOrNotAtAll(t *testing.T) {
	// Commits of this size send readers to the state before them. All objects of
	// a state have one version, and its parity says how many there are.
	const n = largeCommit + 500
	c := newPods()
	byName, err := AddIndex(c, "version", func(p *corev1.Pod) []string { return []string{p.ResourceVersion} })
	require.NoError(t, err)
	size := func(version int) int { return n - version%2*400 }
	objects := func(version int) []*corev1.Pod {
		all := make([]*corev1.Pod, size(version))
		for i := range all {
			all[i] = pod("n", strconv.Itoa(i), "u", strconv.Itoa(version))
		}
		return all
	}
	require.NoError(t, c.Replace(objects(1), "1"))

	check := func(look func() (version string, seen int)) func() bool {
		return func() bool {
			before, _ := strconv.Atoi(c.ResourceVersion())
			version, seen := look()
			v, _ := strconv.Atoi(version)
			return assert.False(t, v < before || seen >= 0 && seen != size(v), "version %q with %d objects, after %d was seen", version, seen, before)
		}
	}
	stop := reading(1, check(func() (string, int) { // point reads
		p, _ := c.Get(Key{Namespace: "n", Name: "0"})
		return p.ResourceVersion, -1
	}), check(func() (version string, seen int) {
		for _, p := range c.All() {
			if seen++; version != "" && version != p.ResourceVersion {
				return "", seen
			}
			version = p.ResourceVersion
		}
		return version, seen
	}), check(func() (string, int) {
		s := c.Snapshot()
		p, _ := s.Get(Key{Namespace: "n", Name: "1"})
		if s.ResourceVersion() != p.ResourceVersion {
			return "", 0
		}
		return p.ResourceVersion, s.Len()
	}), check(func() (string, int) {
		s := c.Snapshot()
		return s.ResourceVersion(), len(names(byName.On(s).Get(s.ResourceVersion())))
	}), check(func() (string, int) {
		if seen := c.Len(); seen != size(0) && seen != size(1) {
			return "", seen
		}
		return c.ResourceVersion(), -1
	}))
	for version := 2; version < 30; version++ {
		if version%4 < 2 {
			require.NoError(t, c.Replace(objects(version), strconv.Itoa(version)))
			continue
		}
		var batch writes[*corev1.Pod]
		for i := size(version); i < n; i++ {
			batch.DeleteKey(Key{Namespace: "n", Name: strconv.Itoa(i)})
		}
		for _, p := range objects(version) {
			batch.Update(p)
		}
		require.NoError(t, batch.to(c))
	}
	stop()
	checkCache(t, c)
	checkIndex(t, byName)
}

func TestMemoryOfLargeCommitsIsNotKept(t *testing.T) {
	c := newPods()
	follow(c)
	require.NoError(t, c.Add(pod("", "a", "", "1"))) // so that there is some to outgrow
	var batch writes[*corev1.Pod]
	for i := range 2 * maxScratch {
		batch.Add(pod("", strconv.Itoa(i), "", ""))
	}
	require.NoError(t, batch.to(c))
	checkCache(t, c)
	assert.LessOrEqual(t, cap(c.scratch.mutations), maxScratch)
	assert.LessOrEqual(t, cap(c.scratch.commit.Changes), maxScratch)
}

// The merged cache of several selectors commits writes of several watches at once.
func TestVersionStaysBeforeARejectedObjectOfABatchWithoutOrder(t *testing.T) {
	for _, version := range []string{"6", "9"} {
		c := newPods()
		require.NoError(t, c.Replace(nil, "1"))
		b := c.BeginBatch(c, false)
		require.NoError(t, b.Write(Write[*corev1.Pod]{Type: Addition, Object: pod("", "a", "u1", version)}))
		require.NoError(t, b.Write(Write[*corev1.Pod]{Key: Key{Name: "b"}, Version: Version{ResourceVersion: "5"}, Err: errUndecodable}))
		require.ErrorIs(t, b.Commit("7"), errUndecodable)
		assert.Equal(t, "1", c.ResourceVersion())
		require.NoError(t, c.DeleteKey(Key{Name: "b"}))
		require.NoError(t, c.Bookmark("10"))
		assert.Equal(t, "10", c.ResourceVersion())
	}
}
