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
	var batch Batch[*corev1.Pod]
	batch.Add(pod("", "a", "u1", "2"))
	batch.Update(pod("", "b", "u2", "3"))
	batch.Delete(pod("", "c", "u3", "4"))
	batch.Bookmark("5")
	batch.DeleteKey(Key{Name: "a"})
	require.Equal(t, 5, batch.Len())

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
	var batch Batch[*corev1.Pod]
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
	var batch Batch[*corev1.Pod]
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
	require.ErrorIs(t, rejected.Rejections[1].Err, ErrNilObject)
	require.ErrorIs(t, rejected.Rejections[2].Err, ErrNoWrite)
	assert.Equal(t, []string{"Addition a 2", "Addition early 3", "Addition c 7"}, inWords(changes))
	assert.Equal(t, "3", c.ResourceVersion(), "what came before the bad one is complete")
	got, _ := c.Get(Key{Name: "b"})
	assert.Equal(t, "1", got.ResourceVersion)
}

func TestLackIsHealedByALaterWriteOfTheBatch(t *testing.T) {
	for name, heal := range map[string]func(*Batch[*corev1.Pod]){
		"put":       func(b *Batch[*corev1.Pod]) { b.Update(pod("", "a", "u1", "3")) },
		"delete":    func(b *Batch[*corev1.Pod]) { b.Delete(pod("", "a", "u1", "3")) },
		"deleteKey": func(b *Batch[*corev1.Pod]) { b.DeleteKey(Key{Name: "a"}); b.Bookmark("3") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1")}, "1"))
			var batch Batch[*corev1.Pod]
			batch.Lack(Rejection{Key: Key{Name: "a"}, Err: errUndecodable})
			batch.Bookmark("2")
			require.ErrorIs(t, c.Apply(&batch), errUndecodable)
			require.Equal(t, "1", c.ResourceVersion())
			heal(&batch)
			require.ErrorIs(t, c.Apply(&batch), errUndecodable, "it is told all the same")
			assert.Equal(t, "3", c.ResourceVersion())
		})
	}
}

func TestLackWithoutARejectionIsOne(t *testing.T) {
	for name, s := range map[string]BatchStore[*corev1.Pod]{"cache": newPods(), "singly": Batches[*corev1.Pod](&overriding{BatchStore: newPods()})} {
		var batch Batch[*corev1.Pod]
		batch.Append(Write[*corev1.Pod]{Type: WriteLack, Key: Key{Name: "a"}})
		assert.ErrorIs(t, s.Apply(&batch), ErrNoWrite, name)
	}
}

func TestWriteCarriesTheVersionOfAnObjectWithoutOne(t *testing.T) {
	c := New(bookKey)
	require.NoError(t, c.Replace(nil, "1"))
	key, version := Key{Namespace: "a", Name: "1"}, Version{UID: "u", ResourceVersion: "2"}
	var batch Batch[book]
	batch.Append(Write[book]{Type: WriteUpdate, Object: book{author: "a", title: "1"}, Version: version})
	require.NoError(t, c.Apply(&batch))
	assert.True(t, c.Holds(key, version))
	assert.False(t, c.Holds(key, Version{UID: "u", ResourceVersion: "3"}))
	assert.False(t, c.Holds(key, Version{}))
	assert.False(t, c.Holds(Key{Name: "none"}, version))
	assert.Equal(t, "2", c.ResourceVersion())

	batch.Reset()
	batch.Append(Write[book]{Type: WriteUpdate, Object: book{author: "a", title: "1"}, Version: Version{UID: "other", ResourceVersion: "3"}})
	batch.Append(Write[book]{Type: WriteDelete, Object: book{author: "a", title: "1"}, Version: Version{UID: "other", ResourceVersion: "4"}})
	changes, err := applied(c, &batch)
	require.NoError(t, err)
	var got []string
	for _, change := range changes {
		got = append(got, fmt.Sprintf("%v %v %v", change.Type, change.Version, change.FinalStateKnown))
	}
	assert.Equal(t, []string{"Deletion {u 2} false", "Addition {other 3} false", "Deletion {other 4} true"}, got)
	assert.Equal(t, "4", c.ResourceVersion())
}

func TestBatchIsReadAndUsedAgain(t *testing.T) {
	var batch Batch[int]
	batch.Add(1)
	batch.Delete(2)
	var seen []string
	for w := range batch.All() {
		seen = append(seen, w.Type.String())
		if w.Type == WriteDelete {
			break
		}
	}
	assert.Equal(t, []string{"Add", "Delete"}, seen)
	room := batch.writes[:2]
	batch.Reset()
	assert.Zero(t, batch.Len())
	assert.Equal(t, make([]Write[int], 2), room, "it refers to nothing any more")
	assert.Equal(t, "WriteType(0)", WriteType(0).String())
	assert.Equal(t, "Lack", WriteLack.String())
	assert.Equal(t, "WriteType(7)", WriteType(7).String())
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
type willing struct{ BatchStore[*corev1.Pod] }

func (w *willing) Itself() Store[*corev1.Pod] { return w }

func TestBatchesAreMadeByTheStoreItself(t *testing.T) {
	c := newPods()
	p, err := c.Partition(Scope{Namespace: "n"})
	require.NoError(t, err)
	w := &willing{c}
	for _, s := range []Store[*corev1.Pod]{c, p, w} {
		assert.Equal(t, s, Batches(s))
	}
}

func TestBatchesDoNotBypassAWrapper(t *testing.T) {
	c := newPods()
	o := &overriding{BatchStore: c}
	s := Batches[*corev1.Pod](o)
	var batch Batch[*corev1.Pod]
	batch.Add(pod("", "a", "u1", "1"))
	batch.Add(nil)
	batch.Update(pod("", "b", "u2", "2"))
	batch.Delete(pod("", "a", "u1", "3"))
	batch.Add(pod("", "", "u", "3"))
	batch.DeleteKey(Key{Name: "b"})
	batch.Append(Write[*corev1.Pod]{})
	batch.Bookmark("4")

	var rejected *RejectedError
	require.ErrorAs(t, s.Apply(&batch), &rejected)
	require.Len(t, rejected.Rejections, 3, "of all writes, in one error")
	assert.ErrorIs(t, rejected.Rejections[0].Err, ErrNilObject)
	assert.ErrorIs(t, rejected.Rejections[1].Err, ErrNoName)
	assert.ErrorIs(t, rejected.Rejections[2].Err, ErrNoWrite)
	assert.Equal(t, 3, o.added)
	assert.Zero(t, c.Len())

	require.NoError(t, s.ReplaceAll(Listing[*corev1.Pod]{Objects: []*corev1.Pod{pod("", "a", "u1", "5")}, ResourceVersion: "5"}))
	assert.Equal(t, 1, o.replaced)
	assert.False(t, s.Holds(Key{Name: "a"}, Version{"u1", "5"}))
	assert.Same(t, o, s.Itself())

	lacking := Listing[*corev1.Pod]{Lacking: []Rejection{{Key: Key{Name: "b"}, Err: errUndecodable}}, ResourceVersion: "6"}
	requireRefused(t, s.ReplaceAll(lacking), errUndecodable)
	requireRefused(t, s.ReplaceAll(Listing[*corev1.Pod]{Unchanged: []Key{{Name: "a"}}, ResourceVersion: "6"}), ErrNotHeld)
	assert.Equal(t, 1, o.replaced, "a list that Replace cannot be told is refused")
	assert.Equal(t, "5", c.ResourceVersion())

	batch.Reset()
	batch.Add(pod("", "b", "u2", "6"))
	batch.Lack(lacking.Lacking[0])
	batch.Add(pod("", "c", "u3", "8"))
	err := s.Apply(&batch)
	require.ErrorAs(t, err, &rejected)
	var refused *RefusedError
	require.ErrorAs(t, err, &refused, "the last write was not made")
	assert.Equal(t, []string{"a", "b"}, names(c.All()), "it ends where something cannot be had")
	assert.Equal(t, "6", c.ResourceVersion())

	batch.Reset()
	batch.Add(pod("", "b", "u2", "7"))
	batch.Lack(lacking.Lacking[0])
	err = s.Apply(&batch)
	require.ErrorAs(t, err, &rejected)
	require.NotErrorAs(t, err, &refused, "everything else was stored")
}

// requireRefused requires that nothing was stored because of one object.
func requireRefused(t *testing.T, err, cause error) {
	t.Helper()
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Rejections, 1)
	require.ErrorIs(t, refused.Rejections[0].Err, cause)
	require.ErrorContains(t, err, cause.Error())
	var rejected *RejectedError
	require.NotErrorAs(t, err, &rejected, "which would mean that the others were stored")
}

// broken is a store whose Add fails as nothing of ours does.
type broken struct{ Store[*corev1.Pod] }

func (broken) Add(*corev1.Pod) error { return errUndecodable }

func TestBatchesReturnErrorsOfAnyKind(t *testing.T) {
	s := Batches[*corev1.Pod](broken{newPods()})
	var batch Batch[*corev1.Pod]
	batch.Add(pod("", "a", "", ""))
	batch.Update(nil)
	err := s.Apply(&batch)
	require.ErrorIs(t, err, errUndecodable)
	require.ErrorIs(t, err, ErrNilObject)
	batch.Reset()
	batch.Update(pod("", "a", "", ""))
	require.NoError(t, s.Apply(&batch))
}

func TestLargeCommitsAreSeenWholeOrNotAtAll(t *testing.T) {
	// Commits of this size send readers to the state before them. All objects of
	// a state have one version, and its parity says how many there are.
	const n = many + 500
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
		var batch Batch[*corev1.Pod]
		for i := size(version); i < n; i++ {
			batch.DeleteKey(Key{Namespace: "n", Name: strconv.Itoa(i)})
		}
		for _, p := range objects(version) {
			batch.Update(p)
		}
		require.NoError(t, c.Apply(&batch))
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
	var batch Batch[*corev1.Pod]
	for i := range 2 * maxScratch {
		batch.Add(pod("", strconv.Itoa(i), "", ""))
	}
	require.NoError(t, c.Apply(&batch))
	checkCache(t, c)
	assert.LessOrEqual(t, cap(c.scratch.edits), maxScratch)
	assert.LessOrEqual(t, cap(c.scratch.commit.Changes), maxScratch)
}

func TestANilBatchIsAnEmptyOne(t *testing.T) {
	c := newPods()
	all := func(*corev1.Pod) bool { return true }
	same := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
	for name, s := range map[string]Store[*corev1.Pod]{
		"Cache":     c,
		"Partition": partition(t, newPods(), Scope{}),
		"Filter":    Filter[*corev1.Pod](c, all),
		"Transform": Transform(c, ObjectKey[*corev1.Pod], same),
		"Tee":       Tee[*corev1.Pod](c, newPods()),
	} {
		assert.NotPanics(t, func() { require.NoError(t, Batches(s).Apply(nil)) }, name)
	}
	changes, err := applied(c, nil)
	require.NoError(t, err)
	assert.Empty(t, changes)
}

func TestNilBatchIsEmptyForAPlainStore(t *testing.T) {
	require.NoError(t, Batches[*corev1.Pod](&plain[*corev1.Pod]{Store: newPods()}).Apply(nil))
}
