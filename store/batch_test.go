package store

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
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

func TestWriteWithoutATypeIsRejected(t *testing.T) {
	for name, to := range map[string]Store[*corev1.Pod]{"cache": newPods(), "plain": &overriding{BatchStore: newPods()}} {
		require.ErrorIs(t, apply(to, Write[*corev1.Pod]{Key: Key{Name: "a"}}), errNoWrite, name)
		batch, _ := Begin(to, true)
		require.NoError(t, batch.Write(Write[*corev1.Pod]{Key: Key{Name: "a"}}))
		require.ErrorContains(t, batch.Commit("1"), errNoWrite.Error(), name)
	}
}

func TestWriteCarriesTheVersionOfAnObjectWithoutOne(t *testing.T) {
	c := New(bookKey)
	require.NoError(t, c.Replace(nil, "1"))
	key, version := Key{Namespace: "a", Name: "1"}, Version{UID: "u", ResourceVersion: "2"}
	var batch writes[book]
	batch.Append(Write[book]{Type: Modification, Object: book{author: "a", title: "1"}, Version: version})
	require.NoError(t, batch.to(c))
	assert.True(t, c.Has(key, version))
	assert.False(t, c.Has(key, Version{UID: "u", ResourceVersion: "3"}))
	assert.False(t, c.Has(key, Version{}))
	assert.False(t, c.Has(Key{Name: "none"}, version))
	assert.Equal(t, "2", c.ResourceVersion())

	batch.Reset()
	batch.Append(Write[book]{Type: Modification, Object: book{author: "a", title: "1"}, Version: Version{UID: "other", ResourceVersion: "3"}})
	batch.Append(Write[book]{Type: Deletion, FinalStateKnown: true, Object: book{author: "a", title: "1"}, Version: Version{UID: "other", ResourceVersion: "4"}})
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
		batch, own := Begin[*corev1.Pod](c, replace)
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

// overriding is a user's wrapper that has everything from the store that it
// embeds, but its own Add and Replace.
type overriding struct {
	BatchStore[*corev1.Pod]
	added, replaced int
}

func (o *overriding) Add(p *corev1.Pod) error { o.added++; return o.BatchStore.Add(p) }

func (o *overriding) Replace(all []*corev1.Pod, version string) error {
	o.replaced++
	return o.BatchStore.Replace(all, version)
}

// willing is a wrapper that means its batches.
type willing struct{ *Cache[*corev1.Pod] }

func (w *willing) BeginBatch(self Store[*corev1.Pod], replace bool) Batch[*corev1.Pod] {
	if self != Store[*corev1.Pod](w) {
		return nil
	}
	return w.Cache.BeginBatch(w.Cache, replace)
}

func TestBatchesAreMadeByTheStoreItself(t *testing.T) {
	c := newPods()
	p, err := c.Partition(Scope{Namespace: "n"})
	require.NoError(t, err)
	for want, stores := range map[bool][]Store[*corev1.Pod]{
		true:  {c, p, &willing{c}},
		false: {&overriding{BatchStore: c}, &overriding{BatchStore: p}, &overriding{BatchStore: &willing{c}}, &plain[*corev1.Pod]{Store: c}},
	} {
		for _, s := range stores {
			for _, replace := range []bool{false, true} {
				_, own := Begin(s, replace)
				assert.Equal(t, want, own, "%T", s)
			}
		}
	}
}

func TestBatchesDoNotBypassAWrapper(t *testing.T) {
	c := newPods()
	o := &overriding{BatchStore: c}
	var batch writes[*corev1.Pod]
	batch.Add(pod("", "a", "u1", "1"))
	batch.Add(nil)
	batch.Update(pod("", "b", "u2", "2"))
	batch.Delete(pod("", "a", "u1", "3"))
	batch.Add(pod("", "", "u", "3"))
	batch.DeleteKey(Key{Name: "b"})
	batch.Append(Write[*corev1.Pod]{})
	batch.Bookmark("4")

	var rejected *RejectedError
	require.ErrorAs(t, batch.to(o), &rejected)
	require.Len(t, rejected.Rejections, 3, "of all writes, in one error")
	assert.ErrorIs(t, rejected.Rejections[0].Err, errNilObject)
	assert.ErrorIs(t, rejected.Rejections[1].Err, errNoName)
	assert.ErrorIs(t, rejected.Rejections[2].Err, errNoWrite)
	assert.Equal(t, 3, o.added)
	assert.Zero(t, c.Len())

	require.NoError(t, list[*corev1.Pod]{Objects: []*corev1.Pod{pod("", "a", "u1", "5")}, ResourceVersion: "5"}.to(o))
	assert.Equal(t, 1, o.replaced)

	failed := list[*corev1.Pod]{Failed: []Rejection{{Key: Key{Name: "b"}, Err: errUndecodable}}, ResourceVersion: "6"}
	requireRefused(t, failed.to(o), errUndecodable)
	requireRefused(t, list[*corev1.Pod]{Unchanged: []Key{{Name: "a"}}, ResourceVersion: "6"}.to(o), ErrNotHeld)
	assert.Equal(t, 1, o.replaced, "a list that Replace cannot be told is refused")
	assert.Equal(t, "5", c.ResourceVersion())

	batch.Reset()
	batch.Add(pod("", "b", "u2", "6"))
	batch.Fail(failed.Failed[0])
	batch.Add(pod("", "c", "u3", "8"))
	err := batch.to(o)
	require.ErrorAs(t, err, &rejected)
	require.ErrorContains(t, err, "nothing was stored", "the last write was not made")
	assert.Equal(t, []string{"a", "b"}, names(c.All()), "it ends at the failed object")
	assert.Equal(t, "6", c.ResourceVersion())

	batch.Reset()
	batch.Add(pod("", "b", "u2", "7"))
	batch.Fail(failed.Failed[0])
	err = batch.to(o)
	require.ErrorAs(t, err, &rejected)
	require.NotContains(t, err.Error(), "nothing was stored", "everything else was stored")
}

func TestListForAPlainStoreHasTheLastWordOnEachKey(t *testing.T) {
	c := newPods()
	batch, own := Begin[*corev1.Pod](&plain[*corev1.Pod]{Store: c}, true)
	require.False(t, own)
	batch.Keep(Key{Name: "b"}) // which is written below
	for _, w := range []Write[*corev1.Pod]{
		adding(pod("", "a", "u1", "1")), deleting(pod("", "a", "u1", "2")),
		adding(pod("", "b", "u2", "1")), adding(pod("", "b", "u2", "2")),
		{Key: Key{Name: "c"}, Err: errUndecodable}, adding(pod("", "c", "u3", "2")),
		adding(pod("", "d", "u4", "1")), {Type: Deletion, Key: Key{Name: "d"}},
	} {
		require.NoError(t, batch.Write(w))
	}
	require.NoError(t, batch.Commit("9"))
	assert.Equal(t, []string{"b", "c"}, names(c.All()))
	assert.Equal(t, "9", c.ResourceVersion())
}

// plain is a store without batches, which notes how it was called.
type plain[T any] struct {
	Store[T]
	calls []string
}

func (p *plain[T]) Add(object T) error {
	p.calls = append(p.calls, "Add")
	return p.Store.Add(object)
}

func (p *plain[T]) Replace(objects []T, resourceVersion string) error {
	p.calls = append(p.calls, "Replace")
	return p.Store.Replace(objects, resourceVersion)
}

// requireRefused requires that nothing was stored because of one object.
func requireRefused(t *testing.T, err, cause error) {
	t.Helper()
	require.ErrorContains(t, err, "nothing was stored, because 1 object(s)")
	require.ErrorContains(t, err, cause.Error())
	require.NotErrorIs(t, err, cause, "which may be a RejectedError")
	var rejected *RejectedError
	require.NotErrorAs(t, err, &rejected, "which would mean that the others were stored")
}

// broken is a store whose Add fails as nothing of ours does.
type broken struct{ Store[*corev1.Pod] }

func (broken) Add(*corev1.Pod) error { return errUndecodable }

func TestBatchesReturnErrorsOfAnyKind(t *testing.T) {
	s := broken{newPods()}
	var batch writes[*corev1.Pod]
	batch.Add(pod("", "a", "", ""))
	batch.Update(nil)
	err := batch.to(s)
	require.ErrorIs(t, err, errUndecodable)
	require.ErrorIs(t, err, errNilObject)
	batch.Reset()
	batch.Update(pod("", "a", "", ""))
	require.NoError(t, batch.to(s))
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

	done := make(chan struct{})
	var readers sync.WaitGroup
	check := func(look func() (version string, seen int)) {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				before, _ := strconv.Atoi(c.ResourceVersion())
				version, seen := look()
				v, _ := strconv.Atoi(version)
				if v < before || seen >= 0 && seen != size(v) {
					t.Errorf("version %q with %d objects, after %d was seen", version, seen, before)
					return
				}
			}
		})
	}
	check(func() (string, int) { // point reads
		p, _ := c.Get(Key{Namespace: "n", Name: "0"})
		return p.ResourceVersion, -1
	})
	check(func() (version string, seen int) {
		for _, p := range c.All() {
			if seen++; version != "" && version != p.ResourceVersion {
				return "", seen
			}
			version = p.ResourceVersion
		}
		return version, seen
	})
	check(func() (string, int) {
		s := c.Snapshot()
		p, _ := s.Get(Key{Namespace: "n", Name: "1"})
		if s.ResourceVersion() != p.ResourceVersion {
			return "", 0
		}
		return p.ResourceVersion, s.Len()
	})
	check(func() (string, int) {
		s := c.Snapshot()
		return s.ResourceVersion(), len(names(byName.On(s).Get(s.ResourceVersion())))
	})
	check(func() (string, int) {
		if seen := c.Len(); seen != size(0) && seen != size(1) {
			return "", seen
		}
		return c.ResourceVersion(), -1
	})
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
	close(done)
	readers.Wait()
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
