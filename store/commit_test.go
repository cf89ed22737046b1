package store

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold store-S6.

// recorder is a follower that keeps the commits, and the state that results
// from it.
type recorder struct {
	state   map[Key]*corev1.Pod
	all     []Change[*corev1.Pod]
	commits []Commit[*corev1.Pod]
	illegal []string
}

func follow(c *Cache[*corev1.Pod]) *recorder {
	r := &recorder{}
	c.Follow(r)
	return r
}

func (r *recorder) Start(s *Snapshot[*corev1.Pod]) {
	r.state = map[Key]*corev1.Pod{}
	for key, p := range s.All() {
		r.state[key] = p
	}
}

func (r *recorder) Commit(c *Commit[*corev1.Pod]) {
	r.commits = append(r.commits, *c)
	for _, ch := range c.Changes {
		r.all = append(r.all, ch)
		held, known := r.state[ch.Key]
		if known == (ch.Type == Addition) || held != ch.Prior {
			r.illegal = append(r.illegal, fmt.Sprintf("%v of %v: held %v, prior %v", ch.Type, ch.Key, held, ch.Prior))
		}
		if ch.Type == Deletion {
			delete(r.state, ch.Key)
		} else {
			r.state[ch.Key] = ch.Object
		}
	}
}

// changes says in words what has been told so far.
func (r *recorder) changes() []string {
	all := []string{}
	for _, ch := range r.all {
		switch ch.Type {
		case Modification:
			all = append(all, fmt.Sprintf("%v %v %s->%s", ch.Type, ch.Key, ch.Prior.ResourceVersion, ch.Object.ResourceVersion))
		default:
			all = append(all, fmt.Sprintf("%v %v %s", ch.Type, ch.Key, ch.Object.ResourceVersion))
		}
	}
	return all
}

func TestCommitsCarryTheirOrigin(t *testing.T) {
	c := newPods()
	rec := follow(c)
	require.NoError(t, c.Add(pod("", "early", "u", "1")))
	require.NoError(t, c.Replace(nil, "2"))
	require.NoError(t, c.Replace(nil, "3"))
	require.NoError(t, c.Bookmark("4"))

	type head struct {
		origin  Origin
		initial bool
		version string
		changes int
	}
	var heads []head
	for _, c := range rec.commits {
		heads = append(heads, head{c.Origin, c.Initial, c.ResourceVersion, len(c.Changes)})
	}
	assert.Equal(t, []head{
		{Watch, false, "", 1},
		{List, true, "2", 1},
		{List, false, "3", 0},
		{Watch, false, "4", 0},
	}, heads, "the first Replace is the initial list, also an empty one")
}

func TestFollowerStartsWithTheStateAndKnowsWhetherItIsComplete(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Add(pod("", "a", "u", "1")))
	assert.False(t, c.Snapshot().Synced())
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u", "1")}, "2"))
	assert.True(t, c.Snapshot().Synced())
	require.NoError(t, c.Update(pod("", "a", "u", "2")))
	assert.True(t, c.Snapshot().Synced())
	assert.Len(t, follow(c).state, 1)
}

func TestFollowersSeeTheCommitInTheCache(t *testing.T) {
	c := newPods()
	seen := 0
	c.Follow(followerFunc(func(commit *Commit[*corev1.Pod]) {
		for _, ch := range commit.Changes {
			held, ok := c.Get(ch.Key)
			if ok && held == ch.Object && c.ResourceVersion() == commit.ResourceVersion && c.Snapshot().Len() == c.Len() {
				seen++
			}
		}
	}))
	for i := range 10 {
		require.NoError(t, c.Add(pod("", strconv.Itoa(i), "u", strconv.Itoa(i+1))))
	}
	assert.Equal(t, 10, seen)
}

type followerFunc func(*Commit[*corev1.Pod])

func (followerFunc) Start(*Snapshot[*corev1.Pod])    {}
func (f followerFunc) Commit(c *Commit[*corev1.Pod]) { f(c) }

func TestStoppedFollowerHearsNothingMore(t *testing.T) {
	c := newPods()
	calls := 0
	other := follow(c)
	stop := c.Follow(followerFunc(func(*Commit[*corev1.Pod]) { calls++ }))
	third := follow(c)
	require.NoError(t, c.Add(pod("", "a", "", "1")))
	stop()
	stop()
	require.NoError(t, c.Add(pod("", "b", "", "2")))
	assert.Equal(t, 1, calls)
	assert.Len(t, other.all, 2, "the others go on")
	assert.Len(t, third.all, 2)
	assert.Len(t, c.followers, 2)
}

func TestLateFollowersHaveNoGapAndNoRepeat(t *testing.T) {
	// Under a writer at full speed, a follower that joins at any moment and
	// applies its commits ends with the state of the cache.
	c := newPods()
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 3000 {
			key := strconv.Itoa(i % 17)
			if i%5 == 4 {
				_ = c.Delete(pod("", key, "u", strconv.Itoa(i+1)))
			} else {
				_ = c.Add(pod("", key, "u", strconv.Itoa(i+1)))
			}
		}
	})
	var recorders []*recorder
	for range 50 {
		recorders = append(recorders, follow(c))
	}
	writer.Wait()
	want := map[Key]*corev1.Pod{}
	for key, p := range c.All() {
		want[key] = p
	}
	for i, r := range recorders {
		require.Equal(t, want, r.state, "follower %d", i)
		require.Empty(t, r.illegal)
	}
}

// bomb is a follower that panics at each commit.
type bomb struct{}

func (bomb) Start(*Snapshot[*corev1.Pod]) {}
func (bomb) Commit(*Commit[*corev1.Pod])  { panic("bomb") }

func TestFollowerPanicDoesNotSkipOthers(t *testing.T) {
	c := newPods()
	byNode, err := AddIndex(c, "node", nodeOf)
	require.NoError(t, err)
	first := follow(c)
	stopOne := c.Follow(bomb{})
	second := follow(c)
	stopTwo := c.Follow(bomb{})
	last := follow(c)
	object := func(name, version string) *corev1.Pod {
		p := labelled(pod("", name, "u"+name, version), "node "+version)
		p.Spec.Hostname = "h"
		return p
	}
	for name, write := range map[string]func(){
		"Add":     func() { _ = c.Add(object("a", "1")) },
		"Update":  func() { _ = c.Update(object("a", "2")) },
		"Batch":   func() { _ = apply(c, adding(object("b", "3"))) },
		"Replace": func() { _ = c.Replace([]*corev1.Pod{object("b", "4"), object("c", "4")}, "4") },
	} {
		before := len(last.commits)
		require.PanicsWithValue(t, "bomb", write, name)
		for _, rec := range []*recorder{first, second, last} {
			require.Len(t, rec.commits, before+1, name)
		}
		checkCache(t, c)
		checkIndex(t, byNode)
	}
	stopOne()
	stopTwo()
	require.NoError(t, c.Replace([]*corev1.Pod{object("d", "9")}, "9"))
	for _, rec := range []*recorder{first, second, last} {
		assert.Empty(t, rec.illegal)
		assert.Equal(t, []string{"d"}, names(c.All()))
		assert.Len(t, rec.state, 1)
	}
	checkIndex(t, byNode)
}

func TestCommitsSayWhereAndUpToWhichVersionEverythingWasTold(t *testing.T) {
	c := newPods()
	r := follow(c)
	said := func() (all []string) {
		for _, commit := range r.commits {
			where := Scope{}
			if commit.Partition != nil {
				where = commit.Partition.Scope()
			}
			all = append(all, fmt.Sprintf("%v seen %q of %q", where, commit.ObservedVersion, commit.ResourceVersion))
		}
		r.commits = nil
		return all
	}
	require.NoError(t, c.Add(pod("n", "early", "u", "1")))
	require.NoError(t, c.Replace(nil, "5"))
	require.NoError(t, c.Add(pod("n", "a", "a", "6")))
	require.NoError(t, c.DeleteKey(Key{Namespace: "n", Name: "a"}))
	require.Error(t, (list[*corev1.Pod]{ResourceVersion: "9", Failed: []Rejection{{Key: Key{Namespace: "n", Name: "bad"}, Err: assert.AnError}}}).to(c))
	require.NoError(t, c.Add(pod("n", "b", "b", "10")))
	const all = "all namespaces"
	assert.Equal(t, []string{
		all + ` seen "" of ""`, all + ` seen "5" of "5"`, all + ` seen "6" of "6"`, all + ` seen "" of "6"`,
		all + ` seen "9" of "6"`, all + ` seen "10" of "6"`,
	}, said(), "what is lacking holds up the resource version alone")

	p, err := c.Partition(Scope{Namespace: "n"})
	require.NoError(t, err)
	require.NoError(t, p.Replace(nil, "20"))
	require.NoError(t, p.Bookmark("21"))
	assert.Equal(t, []string{`namespace n seen "20" of ""`, `namespace n seen "21" of ""`}, said())
}

func TestFollowersHearOfVersionsPastARejection(t *testing.T) {
	c := openWith(t, "1")
	rec := follow(c)
	require.Error(t, c.Add(nameless("5")))
	require.NoError(t, c.Bookmark("10"))
	assert.Equal(t, []string{"10"}, observed(rec))
	assert.Equal(t, "1", c.ResourceVersion(), "before the rejected object")
	require.NoError(t, c.Bookmark("11"))
	assert.Equal(t, []string{"10", "11"}, observed(rec))
}

func TestBookmarkWithoutNewsIsNoCommit(t *testing.T) {
	c := openWith(t, "5")
	rec := follow(c)
	require.NoError(t, c.Bookmark("5"))
	assert.Empty(t, observed(rec))
}

func TestDeletionOfWhatIsNotHeldIsNoCommit(t *testing.T) {
	c := openWith(t, "5")
	rec, before := follow(c), c.Snapshot()
	missing := Key{Namespace: "n", Name: "missing"}
	require.NoError(t, c.DeleteKey(missing))
	require.NoError(t, c.Delete(pod("n", "missing", "u", "5")))
	assert.Empty(t, rec.commits)
	assert.Same(t, before, c.Snapshot())

	require.NoError(t, c.Delete(pod("n", "missing", "u", "6")))
	assert.Equal(t, []string{"6"}, observed(rec), "the version moves")
	batch := c.BeginBatch(c, false)
	for _, w := range []Write[*corev1.Pod]{
		{Type: Deletion, Key: missing},
		{Type: Addition, Object: pod("n", "missing", "u", "7")},
		{Type: Deletion, Key: missing},
		{Type: Deletion, Key: missing},
	} {
		require.NoError(t, batch.Write(w))
	}
	require.NoError(t, batch.Commit("8"))
	assert.Equal(t, 2, len(rec.all), "what the commit itself stored is deleted")
	assert.Empty(t, rec.state)
	checkCache(t, c)
}

func TestCacheForgetsAFollowerThatStopped(t *testing.T) {
	c := openWith(t, "1")
	follow(c)
	gone := followAndStop(c)
	for range 10 {
		runtime.GC()
	}
	assert.Nil(t, gone.Value())
	runtime.KeepAlive(c)
}
