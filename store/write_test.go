package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/ours"
	"github.com/kubereflector/kubereflector/internal/panicked"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	batch.Append(Write[*book]{Type: Modification, Object: &book{author: "a", title: "1"}, Version: version, Hash: 7})
	require.NoError(t, batch.to(c))
	assert.True(t, c.Has(key, version, 7))
	assert.False(t, c.Has(key, Version{UID: "u", ResourceVersion: "3"}, 7))
	assert.False(t, c.Has(key, Version{}, 7))
	assert.False(t, c.Has(key, version, 8))
	assert.False(t, c.Has(key, version, 0))
	assert.False(t, c.Has(Key{Name: "none"}, version, 7))
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
	batch := &watchBatch[*corev1.Pod]{cache: c}
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

// Readers conclude from it that an object which they do not find is gone.
func TestKeyIsRejectedUntilItsObjectIsShown(t *testing.T) {
	c := newPods()
	bad := true
	var during []Key
	indexed(t, c, func(p *corev1.Pod) []string {
		switch {
		case p.Name == "a" && bad:
			panic("bad")
		case p.Name == "b":
			_, held := c.Get(Key{Namespace: "n", Name: "a"})
			assert.False(t, held)
			during = c.Rejected()
		}
		return nil
	})
	require.NoError(t, c.Replace(nil, "5"))
	require.ErrorIs(t, c.Add(pod("n", "a", "u", "6")), ErrPanic)
	bad = false
	batch := writes[*corev1.Pod]{version: "8"}
	batch.Add(pod("n", "a", "u", "7"))
	batch.Add(pod("n", "b", "v", "8"))
	require.NoError(t, batch.to(c))
	assert.Equal(t, []Key{{Namespace: "n", Name: "a"}}, during)
	assert.Empty(t, c.Rejected())
	assert.Equal(t, "8", c.ResourceVersion())

	bad = true
	require.ErrorIs(t, c.Update(pod("n", "a", "u", "9")), ErrPanic)
	bad = false
	require.NoError(t, c.Update(pod("n", "a", "u", "7")), "what it holds already")
	assert.Empty(t, c.Rejected())
}

// A batch says up to which version it is complete. Its objects may be later, and then say nothing
// about what lies between.
func TestObjectsDoNotMoveTheVersionBeyondTheirBatch(t *testing.T) {
	c := newPods()
	indexed(t, c, func(p *corev1.Pod) []string {
		if p.Name == "bad" {
			panic("bad")
		}
		return nil
	})
	require.NoError(t, c.Replace(nil, "5"))
	batch := writes[*corev1.Pod]{version: "10"}
	batch.Add(pod("n", "a", "u", "20"))
	batch.Add(pod("n", "bad", "v", "25"))
	require.ErrorIs(t, batch.to(c), ErrPanic)
	assert.Equal(t, "5", c.ResourceVersion(), "an object is missing")
	require.NoError(t, c.DeleteKey(Key{Namespace: "n", Name: "bad"}))
	require.NoError(t, c.Bookmark("10"))
	assert.Equal(t, "10", c.ResourceVersion())
}

// A merged cache commits writes of several watches at once.
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

func TestWriteWithoutATypeIsRejected(t *testing.T) {
	c := newPods()
	p := partition(t, c, Scope{Cluster: "c1"})
	require.NoError(t, p.Replace([]*corev1.Pod{pod("n", "a", "u", "1")}, "1"))
	for _, replace := range []bool{false, true} {
		batch, _ := begin[*corev1.Pod](p, replace)
		require.NoError(t, batch.Write(Write[*corev1.Pod]{Key: Key{Namespace: "n", Name: "a"}, Version: Version{"u", "2"}}))
		require.ErrorIs(t, batch.Commit("9"), errNoWrite)
		assert.Equal(t, []string{"c1|n/a"}, names(c.All()))
		assert.Equal(t, "1", p.ResourceVersion(), "before the rejected write")
	}
	require.NoError(t, p.Update(pod("n", "a", "u", "3")))
	assert.Equal(t, "3", p.ResourceVersion())
}

// These tests hold store-S4 and store-S5.

func TestBadObjectsStopNothingElse(t *testing.T) {
	c := newPods()
	held := pod("n", "held", "u0", "1")
	require.NoError(t, c.Replace([]*corev1.Pod{held}, "1"))

	err := c.Replace([]*corev1.Pod{pod("n", "good", "u1", "2"), nil, pod("n", "", "u0", "3")}, "4")

	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, 2)
	require.ErrorIs(t, err, errNilObject)
	require.ErrorIs(t, err, errNoName)
	assert.ErrorContains(t, err, `*v1.Pod in namespace "n": object has no usable key: its name is empty`)
	assert.Equal(t, []string{"n/good", "n/held"}, names(c.All()), "the object whose UID came without a name is kept")
	assert.Equal(t, "1", c.ResourceVersion(), "the version stays before what is lacking")
}

func TestWritesOfBadObjectsLeaveEverythingAsItWas(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("n", "a", "u", "1")}, "1"))
	rec := follow(c)
	for name, write := range map[string]func(*corev1.Pod) error{"Add": c.Add, "Update": c.Update, "Delete": c.Delete} {
		for _, bad := range []*corev1.Pod{nil, {}, pod("n", "", "u", "9")} {
			var rejected *RejectedError
			require.ErrorAs(t, write(bad), &rejected, name)
		}
	}
	assert.Empty(t, rec.changes())
	assert.Equal(t, []string{"n/a"}, names(c.All()))
	assert.Equal(t, "1", c.ResourceVersion())
}

func TestResourceVersionStaysBeforeARejectedObject(t *testing.T) {
	bad := errors.New("bad")
	c := New(func(p *corev1.Pod) (Key, error) {
		if p.Labels["bad"] != "" {
			return Key{}, bad
		}
		return ObjectKey(p)
	})
	index, err := AddIndex(c, "panics", func(p *corev1.Pod) []string {
		if p.Annotations["panic"] != "" {
			panic("ouch")
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u", "1")}, "1"))

	poison := pod("", "a", "u", "2")
	poison.Annotations = map[string]string{"panic": "yes"}
	err = c.Update(poison)
	require.ErrorIs(t, err, ErrPanic)
	assert.ErrorContains(t, err, `"a" at resource version "2": index "panics": function for "a": panic: ouch`)
	require.NoError(t, c.Add(pod("", "b", "u2", "3")))
	require.NoError(t, c.Bookmark("4"))
	assert.Equal(t, "1", c.ResourceVersion())
	assert.Equal(t, 2, c.Len(), "everything else goes on")

	require.NoError(t, c.Update(pod("", "a", "u", "5")))
	assert.Equal(t, "5", c.ResourceVersion(), "the object was stored at last")

	require.Error(t, c.Update(poison))
	require.NoError(t, c.Delete(pod("", "a", "u", "6")))
	assert.Equal(t, "6", c.ResourceVersion(), "the object is gone")

	keyless := pod("", "k", "u3", "7")
	keyless.Labels = map[string]string{"bad": "yes"}
	require.ErrorIs(t, c.Add(keyless), bad)
	require.NoError(t, c.Bookmark("8"))
	assert.Equal(t, "6", c.ResourceVersion())
	require.NoError(t, c.Replace(nil, "9"))
	assert.Equal(t, "9", c.ResourceVersion(), "a list without rejections tells everything")
	assert.Empty(t, slices.Collect(index.Values()))
}

func TestReplaceKeepsWhatIsHeldUnderARejectedKey(t *testing.T) {
	c := newPods()
	_, err := AddIndex(c, "panics", func(p *corev1.Pod) []string { return []string{p.Labels["must"]}[len(p.Labels):] })
	require.NoError(t, err)
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u", "1"), pod("", "b", "u2", "1")}, "1"))
	rec := follow(c)
	bad := pod("", "a", "u", "2")
	bad.Labels = map[string]string{"x": "", "y": ""}

	require.ErrorIs(t, c.Replace([]*corev1.Pod{bad}, "2"), ErrPanic)

	assert.Equal(t, []string{"Deletion b 1"}, rec.changes(), "the rejected object is not taken for a missing one")
	assert.Equal(t, "1", c.ResourceVersion())
	require.NoError(t, c.DeleteKey(Key{Name: "a"}))
	require.NoError(t, c.Bookmark("3"))
	assert.Equal(t, "3", c.ResourceVersion(), "nothing is lacking any more")
}

// A writer that cannot decode an object knows its namespace, name and UID, and not the key of the KeyFunc.
func TestUndecodedObjectIsFoundByItsUID(t *testing.T) {
	undecoded := func(change ChangeType, resourceVersion string) Write[*corev1.Pod] {
		return Write[*corev1.Pod]{Type: change, Key: Key{Namespace: "n", Name: "a"}, Version: Version{"u", resourceVersion}}
	}
	bad := undecoded(Addition, "3")
	bad.Err = errors.New("bad")
	for name, scope := range map[string]*Scope{"cache": nil, "partition": {Namespace: "n"}} {
		t.Run(name, func(t *testing.T) {
			c := New(func(p *corev1.Pod) (Key, error) { return Key{Namespace: p.Namespace, Name: string(p.UID)}, nil })
			var to Store[*corev1.Pod] = c
			if scope != nil {
				p, err := c.Partition(*scope)
				require.NoError(t, err)
				to = p
			}
			require.NoError(t, to.Replace([]*corev1.Pod{pod("n", "a", "u", "1"), pod("n", "b", "u2", "1"), pod("n", "c", "u3", "1")}, "2"))
			rec := follow(c)
			list := to.(BatchStore[*corev1.Pod]).BeginBatch(to, true)
			require.NoError(t, list.Write(bad))
			require.NoError(t, list.Write(adding(pod("n", "b", "u2", "1"))))
			require.ErrorIs(t, list.Commit("4"), bad.Err)
			assert.Equal(t, []string{"Deletion n/u3 1"}, rec.changes(), "the server has the rejected object")

			require.NoError(t, apply(to, undecoded(Deletion, "5")))
			assert.Equal(t, 1, c.Len(), "it is gone")
			require.NoError(t, apply(to, adding(pod("n", "a", "u", "6")), undecoded(Deletion, "7"), undecoded(Deletion, "8")))
			assert.Equal(t, 1, c.Len(), "also if it came in the same commit")
			assert.Equal(t, "8", to.ResourceVersion())

			list = to.(BatchStore[*corev1.Pod]).BeginBatch(to, true)
			for _, w := range []Write[*corev1.Pod]{
				adding(pod("n", "a", "u", "9")), bad, undecoded(Deletion, "10"),
				{Type: Addition, Key: Key{Namespace: "n", Name: "c"}, Version: Version{"u3", "3"}, Err: bad.Err}, deleting(pod("n", "c", "u3", "10")),
			} {
				require.NoError(t, list.Write(w))
			}
			require.NoError(t, list.Commit("11"), "what a watch-list deletes is not rejected")
			assert.Zero(t, c.Len())
		})
	}
}

// The key of a deletion that does not decode may be that of another object.
func TestUndecodedDeletionTakesNoOtherObject(t *testing.T) {
	byApp := func(p *corev1.Pod) (Key, error) { return Key{Namespace: p.Namespace, Name: p.Labels["app"]}, nil }
	of := func(name, app, uid string) *corev1.Pod {
		p := pod("n", name, uid, "1")
		p.Labels = map[string]string{"app": app}
		return p
	}
	gone := Write[*corev1.Pod]{Type: Deletion, Key: Key{Namespace: "n", Name: "y"}, Version: Version{"u2", "5"}}
	keys := func(c *Cache[*corev1.Pod]) (names []string) {
		for key := range c.All() {
			names = append(names, key.Name)
		}
		return names
	}
	for name, objects := range map[string][]*corev1.Pod{
		"under the key of the deletion": {of("x", "y", "u1"), of("y", "z", "u2")},
		"and one whose key is its name": {of("a", "a", "u0"), of("x", "y", "u1"), of("y", "z", "u2")},
	} {
		t.Run(name, func(t *testing.T) {
			kept := []string{"a", "y"}[2-len(objects)+1:]
			c := New(byApp)
			require.NoError(t, c.Replace(objects, "2"))
			require.NoError(t, apply(c, gone, gone))
			assert.Equal(t, kept, keys(c))
			assert.Equal(t, "5", c.ResourceVersion())

			list := c.BeginBatch(c, true)
			for _, object := range objects {
				require.NoError(t, list.Write(adding(object)))
			}
			require.NoError(t, list.Write(gone))
			require.NoError(t, list.Commit("6"))
			assert.Equal(t, kept, keys(c))
		})
	}
	c := New(func(p *corev1.Pod) (Key, error) {
		return Key{Cluster: "west", Namespace: p.Namespace, Name: p.Name}, nil
	})
	require.NoError(t, c.Replace([]*corev1.Pod{pod("n", "a", "u", "1"), pod("n", "y", "u2", "1")}, "2"))
	require.NoError(t, apply(c, gone))
	assert.Equal(t, []string{"a"}, keys(c), "the writer does not know the cluster")
}

func TestDeletionInAWatchListTakesBackARejectionWithoutAKey(t *testing.T) {
	failing := errors.New("no key")
	c := New(ObjectKey[*corev1.Pod])
	require.NoError(t, c.Replace([]*corev1.Pod{pod("n", "a", "u", "1")}, "2"))
	list := c.BeginBatch(c, true)
	require.NoError(t, list.Write(Write[*corev1.Pod]{Type: Addition, Version: Version{"u", "3"}, Err: failing}))
	require.NoError(t, list.Write(deleting(pod("n", "a", "u", "4"))))
	require.NoError(t, list.Commit("5"))
	assert.Zero(t, c.Len())
	assert.Empty(t, c.Rejected())
}

// counted counts how often its UID is read.
type counted struct {
	*corev1.Pod
	reads *int
}

func (c counted) GetUID() types.UID { *c.reads++; return c.UID }

func TestDeletionOfAnUnknownObjectDoesNotWalkThroughTheCache(t *testing.T) {
	reads := 0
	c := New(ObjectKey[counted])
	for i := range 1000 {
		require.NoError(t, c.Add(counted{pod("n", fmt.Sprint("a", i), fmt.Sprint("u", i), "1"), &reads}))
	}
	reads = 0
	gone := writes[counted]{all: []Write[counted]{{Type: Deletion, Key: Key{Namespace: "n", Name: "b"}, Version: Version{"u", "3"}}}}
	require.NoError(t, gone.to(c))
	assert.Less(t, reads, 10)
}

func TestKeyFuncWithoutAKeyIsARejection(t *testing.T) {
	c := New(func(*Key) (Key, error) { return Key{}, nil })
	assert.ErrorIs(t, c.Add(&Key{}), errNoName)
	failing := New(func(*Key) (Key, error) { return Key{Name: "half"}, errNoName })
	var rejected *RejectedError
	require.ErrorAs(t, failing.Add(&Key{}), &rejected)
	assert.Zero(t, rejected.Rejections[0].Key, "a key that came with an error is none")
}

func TestPanicOfAKeyFuncIsARejection(t *testing.T) {
	c := New(keyItself)
	err := c.Replace([]*Key{{Name: "a"}, nil, {Name: "b"}}, "")
	assert.ErrorIs(t, err, ErrPanic)
	assert.Equal(t, []string{"a", "b"}, names(c.All()))
}

// A stack is some kilobytes, and whoever keeps the error keeps it until the next list.
func TestFunctionThatPanicsOnEachObjectLeavesFewStacks(t *testing.T) {
	var pods []*corev1.Pod
	var events writes[*corev1.Pod]
	for i := range 2 * panicked.MaxStacks {
		pods = append(pods, pod("n", fmt.Sprintf("%03d", i), fmt.Sprint("uid-", i), "2"))
		events.Add(pods[i])
	}
	for name, open := range map[string]func() (*podCache, error){
		"KeyFunc": func() (*podCache, error) { return New(func(*corev1.Pod) (Key, error) { panic("ouch") }), nil },
		"index": func() (*podCache, error) {
			c := newPods()
			_, err := AddIndex(c, "bad", func(*corev1.Pod) []string { panic("ouch") })
			return c, err
		},
		"size": func() (*podCache, error) {
			c := newPods()
			_, err := AddBudget(c, 0, func(*corev1.Pod) int64 { panic("ouch") })
			return c, err
		},
	} {
		for way, write := range map[string]func(*podCache) error{
			"list":          func(c *podCache) error { return c.Replace(pods, "2") },
			"list in parts": func(c *podCache) error { return list[*corev1.Pod]{Objects: pods}.to(c) },
			"events":        func(c *podCache) error { return events.to(c) },
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				c, err := open()
				require.NoError(t, err)
				rejected, ok := errors.AsType[*RejectedError](write(c))
				require.True(t, ok)
				require.Len(t, rejected.Rejections, len(pods))
				stacks := 0
				for i, r := range rejected.Rejections {
					require.ErrorIs(t, r.Err, ErrPanic)
					assert.Equal(t, pods[i].ResourceVersion, r.Version.ResourceVersion)
					if name != "KeyFunc" {
						assert.Equal(t, Key{Namespace: "n", Name: pods[i].Name}, r.Key)
					}
					if strings.Contains(r.Err.Error(), "[running]") {
						stacks++
					}
				}
				assert.Equal(t, panicked.MaxStacks, stacks)
				assert.Contains(t, rejected.Rejections[0].Err.Error(), "[running]", "the first ones are shown")
			})
		}
	}
}

func TestErrorWithoutAStackStillSaysWhoseTheKeyIs(t *testing.T) {
	p, err := newPods().Partition(Scope{Namespace: "mine"})
	require.NoError(t, err)
	var events writes[*corev1.Pod]
	for i := range 2 * panicked.MaxStacks {
		events.Fail(Rejection{Key: Key{Namespace: "other", Name: fmt.Sprint(i)}, Err: panicked.Error("ouch")})
	}
	rejected, ok := errors.AsType[*RejectedError](events.to(p))
	require.True(t, ok)
	stacks := 0
	for _, r := range rejected.Rejections {
		require.ErrorIs(t, r.Err, ErrOutOfScope)
		require.ErrorIs(t, r.Err, ErrPanic)
		stacks += strings.Count(r.Err.Error(), "[running]")
	}
	assert.Equal(t, panicked.MaxStacks, stacks)
}

// The reflector may take minutes for a list.
func TestListKeepsNoObjectOnWhichAnIndexFunctionPanics(t *testing.T) {
	c, gathered := limited(t, 1000)
	calls := 0
	values := indexed(t, c, func(*corev1.Pod) []string { calls++; panic("ouch") })
	batch, err := begun(c, sized("a", 600, 1), sized("b", 600, 1))
	require.NoError(t, err)
	for _, w := range batch.(*replaceBatch[*corev1.Pod]).writes {
		assert.Nil(t, w.object)
	}
	assert.Zero(t, gathered())
	err = batch.Commit("1")
	require.ErrorIs(t, err, ErrPanic)
	require.NotErrorIs(t, err, ErrOverBudget, "an object that is not kept takes no room")
	assert.Equal(t, 2, calls, "it panics again, so it is not called again")
	assert.Equal(t, []Key{{Namespace: "n", Name: "a"}, {Namespace: "n", Name: "b"}}, c.Rejected())
	assert.Zero(t, values())
}

func TestRejectedErrorStaysShort(t *testing.T) {
	c := newPods()
	err := c.Replace(make([]*corev1.Pod, 1000), "1")
	assert.ErrorContains(t, err, "store rejected 1000 object(s)")
	assert.ErrorContains(t, err, "and 995 more")
}

func TestObjectsThatCannotBeHadAreLacking(t *testing.T) {
	c := newPods()
	undecodable := errors.New("undecodable")
	held := pod("", "held", "u1", "1")
	require.NoError(t, c.Replace([]*corev1.Pod{held}, "1"))
	rec := follow(c)

	lacking := []Rejection{{Key: Key{Name: "held"}, Err: undecodable}, {Key: Key{Name: "new"}, Err: undecodable}}
	err := (list[*corev1.Pod]{Objects: []*corev1.Pod{pod("", "other", "u2", "2"), nil}, Failed: lacking, ResourceVersion: "3"}).to(c)
	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Len(t, rejected.Rejections, 3)
	assert.ErrorIs(t, err, undecodable)
	assert.Equal(t, []string{"Addition other 2"}, rec.changes())
	assert.Equal(t, "1", c.ResourceVersion())

	require.NoError(t, c.Replace([]*corev1.Pod{held}, "4"))
	assert.Equal(t, "4", c.ResourceVersion())
	var batch writes[*corev1.Pod]
	batch.Fail(lacking[0])
	require.ErrorIs(t, batch.to(c), undecodable)
	require.NoError(t, c.Bookmark("5"))
	assert.Equal(t, "4", c.ResourceVersion())
	require.NoError(t, c.DeleteKey(Key{Name: "held"}))
	require.NoError(t, c.Bookmark("6"))
	assert.Equal(t, "6", c.ResourceVersion())
}

func TestBadWritesOfABatchStopNoOthers(t *testing.T) {
	c := newPods()
	_, err := AddIndex(c, "tag", func(p *corev1.Pod) []string { return []string{p.Labels["must"]}[len(p.Labels):] })
	require.NoError(t, err)
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "b", "u2", "1")}, "1"))
	poison := pod("", "b", "u2", "4")
	poison.Labels = map[string]string{"x": "", "y": ""}
	var batch writes[*corev1.Pod]
	batch.Add(pod("", "a", "u1", "2"))
	batch.Add(pod("", "early", "u9", "3"))
	batch.Update(poison)
	batch.Add(nil)
	batch.Append(Write[*corev1.Pod]{Key: Key{Name: "odd"}})
	batch.Add(pod("", "c", "u3", "7"))

	changes, err := applied(c, &batch)

	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, 3)
	require.ErrorIs(t, rejected.Rejections[0].Err, ErrPanic)
	require.ErrorIs(t, rejected.Rejections[1].Err, errNilObject)
	require.ErrorIs(t, rejected.Rejections[2].Err, errNoWrite)
	assert.Equal(t, []string{"Addition a 2", "Addition early 3", "Addition c 7"}, inWords(changes))
	assert.Equal(t, "3", c.ResourceVersion(), "what came before the bad one is complete")
	got, _ := c.Get(Key{Name: "b"})
	assert.Equal(t, "1", got.ResourceVersion)
}

func TestLackIsHealedByALaterWriteOfTheBatch(t *testing.T) {
	for name, heal := range map[string]func(*writes[*corev1.Pod]){
		"put":       func(b *writes[*corev1.Pod]) { b.Update(pod("", "a", "u1", "3")) },
		"delete":    func(b *writes[*corev1.Pod]) { b.Delete(pod("", "a", "u1", "3")) },
		"deleteKey": func(b *writes[*corev1.Pod]) { b.DeleteKey(Key{Name: "a"}); b.Bookmark("3") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1")}, "1"))
			var batch writes[*corev1.Pod]
			batch.Fail(Rejection{Key: Key{Name: "a"}, Err: errUndecodable})
			batch.Bookmark("2")
			require.ErrorIs(t, batch.to(c), errUndecodable)
			require.Equal(t, "1", c.ResourceVersion())
			batch.Bookmark("")
			heal(&batch)
			require.ErrorIs(t, batch.to(c), errUndecodable, "it is told all the same")
			assert.Equal(t, "3", c.ResourceVersion())
		})
	}
}

func TestUnannouncedWritesAreSeenByReadersAlone(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1"), pod("", "d", "u4", "1")}, "1"))
	rejected, ok := errors.AsType[*RejectedError](c.Add(pod("", "", "u9", "2")))
	require.True(t, ok)
	require.Len(t, rejected.Rejections, 1)
	byVersion, err := AddIndex(&c.View, "version", func(p *corev1.Pod) []string { return []string{p.ResourceVersion} })
	require.NoError(t, err)
	rec := follow(c)
	before := c.Snapshot()

	local := pod("", "a", "u1", "7")
	err = c.WriteUnannounced(ours.Only{},
		Write[*corev1.Pod]{Type: Modification, Object: local}, Write[*corev1.Pod]{Type: Addition, Object: pod("", "b", "u2", "9")},
		Write[*corev1.Pod]{Type: Addition, Object: pod("", "", "u3", "9")}, Write[*corev1.Pod]{Type: Deletion, Key: Key{Name: "d"}})

	rejected, ok = errors.AsType[*RejectedError](err)
	require.True(t, ok, "%v", err)
	assert.Len(t, rejected.Rejections, 1)
	assert.Equal(t, []string{"a", "b"}, names(c.All()))
	assert.Equal(t, []string{"a", "d"}, names(before.All()), "a snapshot stays")
	assert.Equal(t, []string{"a"}, names(byVersion.Get("7")))
	assert.Empty(t, names(byVersion.Get("1")))
	assert.Empty(t, rec.commits)
	assert.Equal(t, "1", c.ResourceVersion(), "the version is that of the reflector")
	assert.Len(t, c.Rejected(), 1, "what the reflector could not store")

	require.NoError(t, c.Update(pod("", "a", "u1", "3")))
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "3"), pod("", "d", "u4", "1")}, "4"))
	assert.Equal(t, []string{"Modification a 7->3", "Deletion b 9", "Addition d 1"}, rec.changes())
	assert.Same(t, local, rec.all[0].Prior)
	assert.Equal(t, []string{"a", "d"}, names(c.All()))
	assert.Equal(t, "4", c.ResourceVersion())
}

func TestWriteThatRepeatsAnUnannouncedOneIsAnnounced(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1"), pod("", "d", "u4", "1")}, "1"))
	rec := follow(c)
	local := func(p *corev1.Pod, phase corev1.PodPhase) *corev1.Pod {
		p.Status.Phase = phase
		return p
	}
	require.NoError(t, c.WriteUnannounced(ours.Only{}, Write[*corev1.Pod]{Type: Addition, Object: pod("", "b", "u2", "2")}))
	assert.Equal(t, "1", c.ResourceVersion(), "also if nothing is rejected")
	require.NoError(t, c.Add(pod("", "b", "u2", "2")))
	require.NoError(t, c.Add(pod("", "b", "u2", "2")))
	assert.Equal(t, []string{"Modification b 2->2"}, rec.changes(), "once")

	for _, phase := range []corev1.PodPhase{"one", "two"} { // with one version
		require.NoError(t, c.WriteUnannounced(ours.Only{},
			Write[*corev1.Pod]{Type: Addition, Object: local(pod("", "a", "u1", "1"), "zero")}, Write[*corev1.Pod]{Type: Addition, Object: local(pod("", "a", "u1", "1"), phase)}))
		a, _ := c.Get(Key{Name: "a"})
		assert.Equal(t, phase, a.Status.Phase)
	}
	require.NoError(t, c.WriteUnannounced(ours.Only{}, Write[*corev1.Pod]{Type: Modification, Object: pod("", "d", "u4", "1")}))
	assert.False(t, c.Has(Key{Name: "d"}, Version{"u4", "1"}, 7))
	batch := c.BeginBatch(c, true)
	batch.Keep(Key{Name: "a"})
	require.NoError(t, batch.Write(Write[*corev1.Pod]{Type: Addition, Object: pod("", "d", "u4", "1")}))
	assert.ErrorIs(t, batch.Commit("3"), ErrNotHeld, "what a list keeps is not what is held")
	assert.Equal(t, []string{"Modification b 2->2", "Deletion b 2"}, rec.changes(), "an unannounced write of what followers know, as of d, leaves nothing to announce")
}

func TestDeletionThatRepeatsAnUnannouncedOneIsAnnounced(t *testing.T) {
	all := []*corev1.Pod{pod("", "a", "u1", "1"), pod("", "b", "u2", "1"), pod("", "c", "u3", "1"), pod("", "d", "u4", "1")}
	gone := func(names ...string) (writes []Write[*corev1.Pod]) {
		for _, name := range names {
			writes = append(writes, Write[*corev1.Pod]{Type: Deletion, Key: Key{Name: name}})
		}
		return writes
	}
	begin := func() (*Cache[*corev1.Pod], *recorder) {
		c := newPods()
		require.NoError(t, c.Replace(all, "1"))
		return c, follow(c)
	}

	c, rec := begin()
	require.NoError(t, c.WriteUnannounced(ours.Only{}, gone("a", "b", "c", "none")...))
	require.NoError(t, c.WriteUnannounced(ours.Only{}, gone("a")...))
	assert.Empty(t, rec.commits)
	require.NoError(t, c.Delete(pod("", "a", "u1", "5")))
	require.NoError(t, c.DeleteKey(Key{Name: "b"}))
	require.NoError(t, c.DeleteKey(Key{Name: "b"}))
	require.NoError(t, c.DeleteKey(Key{Name: "none"}))
	require.NoError(t, c.Add(pod("", "c", "u3", "6")))
	require.NoError(t, c.DeleteKey(Key{Name: "c"}))
	assert.Equal(t, []string{"Deletion a 5", "Deletion b 1", "Addition c 6", "Deletion c 6"}, rec.changes())
	assert.Same(t, all[0], rec.all[0].Prior)
	assert.True(t, rec.all[0].FinalStateKnown)
	assert.False(t, rec.all[1].FinalStateKnown)
	checkCache(t, c)

	c, rec = begin()
	require.NoError(t, c.WriteUnannounced(ours.Only{}, gone("d", "a", "c", "b")...))
	require.NoError(t, c.WriteUnannounced(ours.Only{}, Write[*corev1.Pod]{Type: Addition, Object: all[1]}))
	require.NoError(t, c.Replace(all[2:3], "7"))
	assert.Equal(t, []string{"Deletion b 1", "Deletion a 1", "Deletion d 1", "Addition c 1"}, rec.changes())
	require.NoError(t, c.Replace(nil, "8"))
	require.NoError(t, c.DeleteKey(Key{Name: "a"}))
	assert.Equal(t, []string{"Deletion b 1", "Deletion a 1", "Deletion d 1", "Addition c 1", "Deletion c 1"}, rec.changes(), "once")
	checkCache(t, c)
}

// What only readers saw comes and goes without a trace, however often it does.
func TestUnannouncedObjectThatFollowersNeverKnewIsNotDeleted(t *testing.T) {
	add := func(name string) Write[*corev1.Pod] {
		return Write[*corev1.Pod]{Type: Addition, Object: pod("", name, "u-"+name, "7")}
	}
	remove := func(name string) Write[*corev1.Pod] { return Write[*corev1.Pod]{Type: Deletion, Key: Key{Name: name}} }
	c := newPods()
	write := func(writes ...Write[*corev1.Pod]) {
		t.Helper()
		require.NoError(t, c.WriteUnannounced(ours.Only{}, writes...))
	}
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "known", "u-known", "1")}, "1"))
	write(add("early"))
	rec := follow(c)
	for range 2 {
		write(add("x"))
		write(add("x"), add("y"))
		write(remove("x"), remove("y"))
	}
	assert.Empty(t, c.absent, "nor are they kept in memory")
	assert.Empty(t, c.unseen)
	write(remove("known"))
	write(add("known"))
	write(remove("known"), remove("early"))
	write(add("z"), remove("z"), add("told"))
	require.NoError(t, c.Add(pod("", "told", "u-told", "8")))
	write(remove("told"))
	require.NoError(t, c.Replace(nil, "9"))
	assert.Equal(t, []string{"Modification told 7->8", "Deletion early 7", "Deletion known 7", "Deletion told 8"}, rec.changes())
	write(add("x"))
	require.NoError(t, c.Replace(nil, "10"))
	assert.Equal(t, "Deletion x 7", rec.changes()[4], "a list that lacks what readers see is news, as in client-go")
	assert.Empty(t, c.absent)
	assert.Empty(t, c.unseen)
	checkCache(t, c)
}
