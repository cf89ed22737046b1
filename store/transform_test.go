package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// slim is what is kept of a pod: nothing says its version.
type slim struct{ namespace, name, node string }

func slimKey(s *slim) (Key, error) {
	if s.name == "" {
		return Key{}, ErrNoName
	}
	return Key{Namespace: s.namespace, Name: s.name}, nil
}

var errRefused = errors.New("refused")

// slimmer makes pods slim, and counts.
type slimmer struct{ calls int }

func (s *slimmer) slim(p *corev1.Pod) (*slim, error) {
	s.calls++
	switch p.Labels["fail"] {
	case "error":
		return &slim{name: "of an error"}, errRefused
	case "panic":
		panic("ouch")
	case "nil":
		return nil, nil
	case "rename":
		return &slim{p.Namespace, p.Name + "-renamed", ""}, nil
	case "nameless":
		return &slim{}, nil
	}
	return &slim{p.Namespace, p.Name, p.Spec.NodeName}, nil
}

func failing(p *corev1.Pod, how string) *corev1.Pod {
	p.Labels = map[string]string{"fail": how}
	return p
}

// slims returns a cache of slim pods and the Transform that fills it.
func slims() (*Cache[*slim], Store[*corev1.Pod], *slimmer) {
	c, s := New(slimKey), &slimmer{}
	return c, Transform(c, ObjectKey[*corev1.Pod], s.slim), s
}

// told is a follower that says in words what it is told.
type told[T any] struct {
	changes []string
	commits int
}

func listen[T any](c *Cache[T]) *told[T] {
	f := &told[T]{}
	c.Follow(f)
	return f
}

func (f *told[T]) Start(*Snapshot[T]) {}

func (f *told[T]) Commit(c *Commit[T]) {
	f.commits++
	for _, ch := range c.Changes {
		word := fmt.Sprintf("%v %v %s@%s", ch.Type, ch.Key, ch.Version.UID, ch.Version.ResourceVersion)
		if ch.Type == Deletion && !ch.FinalStateKnown {
			word += " unseen"
		}
		f.changes = append(f.changes, word)
	}
}

func TestTransformKeepsTheVersionsOfATypeWithoutAny(t *testing.T) {
	c, pods, fn := slims()
	heard := listen(c)
	hear := func() []string {
		all := heard.changes
		heard.changes = nil
		return all
	}

	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1"), pod("n", "b", "u2", "2")}, "2"))
	assert.Equal(t, []string{"Addition n/a u1@1", "Addition n/b u2@2"}, hear())
	assert.Equal(t, "2", pods.ResourceVersion())
	held, _ := c.Get(Key{Namespace: "n", Name: "a"})

	require.NoError(t, pods.Update(pod("n", "b", "u2", "3")))
	assert.Equal(t, []string{"Modification n/b u2@3"}, hear())
	assert.Equal(t, "3", pods.ResourceVersion(), "the slim object does not say it")

	calls := fn.calls
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1"), pod("n", "b", "u2", "4")}, "5"))
	assert.Equal(t, []string{"Modification n/b u2@4"}, hear())
	assert.Equal(t, 1, fn.calls-calls, "the unchanged object is not transformed again")
	again, _ := c.Get(Key{Namespace: "n", Name: "a"})
	assert.Same(t, held, again)
	assert.Equal(t, "5", pods.ResourceVersion())

	require.NoError(t, pods.Add(pod("n", "a", "u9", "6")))
	assert.Equal(t, []string{"Deletion n/a u1@1 unseen", "Addition n/a u9@6"}, hear(), "another UID is another object")
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u9", "6"), pod("n", "b", "u10", "7")}, "7"))
	assert.Equal(t, []string{"Deletion n/b u2@4 unseen", "Addition n/b u10@7"}, hear())

	require.NoError(t, pods.Delete(pod("n", "a", "u9", "8")))
	assert.Equal(t, []string{"Deletion n/a u9@8"}, hear(), "the last state is transformed, too")
	assert.Equal(t, "8", pods.ResourceVersion())
	require.NoError(t, pods.DeleteKey(Key{Namespace: "n", Name: "b"}))
	assert.Equal(t, []string{"Deletion n/b u10@7 unseen"}, hear())
	require.NoError(t, pods.Bookmark("9"))
	assert.Equal(t, "9", pods.ResourceVersion())
	assert.Zero(t, c.Len())
}

func TestTransformTellsHowItsObjectsAreHeld(t *testing.T) {
	_, pods, _ := slims()
	require.NoError(t, pods.Add(pod("n", "a", "u1", "1")))
	holds := Batches(pods).Holds
	assert.True(t, holds(Key{Namespace: "n", Name: "a"}, Version{"u1", "1"}))
	assert.False(t, holds(Key{Namespace: "n", Name: "a"}, Version{"u1", "2"}))
	assert.False(t, holds(Key{Namespace: "n", Name: "a"}, Version{"", "1"}))
}

func TestTransformRejectsWhatItsFunctionRefuses(t *testing.T) {
	for how, cause := range map[string]error{
		"error": errRefused, "panic": ErrPanic, "nil": ErrNilObject, "rename": ErrKeyMismatch, "nameless": ErrNoName,
	} {
		t.Run(how, func(t *testing.T) {
			c, pods, _ := slims()
			require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
			held, _ := c.Get(Key{Namespace: "n", Name: "a"})
			heard := listen(c)
			var batch Batch[*corev1.Pod]
			batch.Add(pod("n", "before", "u2", "2"))
			batch.Update(failing(pod("n", "a", "u1", "3"), how))
			batch.Add(pod("n", "after", "u3", "4"))

			err := Batches(pods).Apply(&batch)

			var rejected *RejectedError
			require.ErrorAs(t, err, &rejected)
			require.Len(t, rejected.Rejections, 1)
			assert.Equal(t, Key{Namespace: "n", Name: "a"}, rejected.Rejections[0].Key)
			assert.Equal(t, Version{"u1", "3"}, rejected.Rejections[0].Version)
			require.ErrorIs(t, err, cause)
			assert.Equal(t, []string{"Addition n/before u2@2", "Addition n/after u3@4"}, heard.changes, "nothing else is stopped")
			assert.Equal(t, 1, heard.commits, "a batch is one batch for the store behind")
			still, _ := c.Get(Key{Namespace: "n", Name: "a"})
			assert.Same(t, held, still)
			require.NoError(t, pods.Bookmark("5"))
			assert.NotContains(t, []string{"3", "4", "5"}, pods.ResourceVersion(), "it stays before the rejected object")

			require.NoError(t, pods.Update(pod("n", "a", "u1", "6")))
			assert.Equal(t, "6", pods.ResourceVersion(), "nothing is lacking any more")
		})
	}
}

func TestTransformKeepsWhatAListHasInAStateThatIsRefused(t *testing.T) {
	for _, how := range []string{"error", "panic", "nil", "rename", "nameless"} {
		t.Run(how, func(t *testing.T) {
			c, pods, _ := slims()
			require.Error(t, pods.Replace([]*corev1.Pod{failing(pod("n", "a", "u1", "1"), how), pod("n", "b", "u2", "2")}, "2"))
			assert.Equal(t, []string{"n/b"}, names(c.All()))
			assert.Empty(t, pods.ResourceVersion(), "the list was not complete")

			require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "3"), pod("n", "b", "u2", "2")}, "3"))
			heard := listen(c)
			list := []*corev1.Pod{failing(pod("n", "a", "u4", "4"), how), pod("n", "c", "u3", "4")}
			require.Error(t, pods.Replace(list, "4"))
			assert.Equal(t, []string{"Deletion n/b u2@2 unseen", "Addition n/c u3@4"}, heard.changes, "a rejected object is not a missing one")
			assert.Equal(t, "3", pods.ResourceVersion())

			require.NoError(t, pods.DeleteKey(Key{Namespace: "n", Name: "a"}))
			require.NoError(t, pods.Bookmark("5"))
			assert.Equal(t, "5", pods.ResourceVersion())
		})
	}
}

func TestTransformDeletesByKeyWhenTheLastStateIsRefused(t *testing.T) {
	for _, how := range []string{"error", "panic", "nil", "rename", "nameless"} {
		c, pods, _ := slims()
		require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
		heard := listen(c)
		require.NoError(t, pods.Delete(failing(pod("n", "a", "u1", "2"), how)), how)
		assert.Equal(t, []string{"Deletion n/a u1@1 unseen"}, heard.changes)
		assert.Equal(t, "2", pods.ResourceVersion())
	}
}

func TestTransformRejectsObjectsWithoutAKey(t *testing.T) {
	c, pods, fn := slims()
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	calls := fn.calls
	for name, write := range map[string]func(*corev1.Pod) error{"Add": pods.Add, "Update": pods.Update, "Delete": pods.Delete} {
		require.ErrorIs(t, write(nil), ErrNilObject, name)
		require.ErrorIs(t, write(pod("n", "", "u1", "2")), ErrNoName, name)
	}
	err := pods.Replace([]*corev1.Pod{nil, pod("n", "", "u1", "3")}, "3")
	var rejected *RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, 2)
	assert.Equal(t, Version{"u1", "3"}, rejected.Rejections[1].Version)
	assert.Equal(t, []string{"n/a"}, names(c.All()), "it is found by its UID")
	assert.Equal(t, "1", pods.ResourceVersion())
	assert.Equal(t, calls, fn.calls)
}

func TestTransformWithAKeyFuncThatPanicsKeepsWhatHasTheUID(t *testing.T) {
	c := New(slimKey)
	pods := Transform(c, func(p *corev1.Pod) (Key, error) {
		if p.Labels["fail"] != "" {
			panic("no key")
		}
		return ObjectKey(p)
	}, (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.ErrorIs(t, pods.Replace([]*corev1.Pod{failing(pod("n", "a", "u1", "2"), "yes")}, "2"), ErrPanic)
	assert.Equal(t, []string{"n/a"}, names(c.All()))
}

func TestTransformTakesTheLaterOfTwoObjectsWithOneKey(t *testing.T) {
	// The version that is held is 1; a version with an exclamation mark is refused.
	for name, list := range map[string][]string{
		"unchanged, changed":            {"1", "2"},
		"changed, unchanged":            {"2", "1"},
		"changed, unchanged, changed":   {"2", "1", "3"},
		"unchanged, changed, unchanged": {"1", "2", "1"},
		"changed, changed":              {"2", "3"},
		"refused, changed":              {"2!", "3"},
		"refused, unchanged":            {"2!", "1"},
		"refused, changed, changed":     {"2!", "4", "3"},
		"changed, refused":              {"2", "3!"},
		"unchanged, refused":            {"1", "2!"},
		"all of them":                   {"1", "2!", "3", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			c, pods, _ := slims()
			others := []*corev1.Pod{pod("n", "b", "u2", "1"), pod("n", "c", "u3", "1"), pod("n", "d", "u4", "1")}
			require.NoError(t, pods.Replace(append(others, pod("n", "a", "u1", "1")), "1"))
			objects := append(others, failing(pod("n", "e", "u5", "1"), "error"))
			last := ""
			for _, version := range list {
				last = version
				if strings.HasSuffix(version, "!") {
					objects = append(objects, failing(pod("n", "a", "u1", version), "error"))
				} else {
					objects = append(objects, pod("n", "a", "u1", version))
				}
			}
			err := pods.Replace(objects, "9")

			require.ErrorIs(t, err, errRefused)
			if strings.HasSuffix(last, "!") {
				require.ErrorContains(t, err, `"n/a" at`)
				last = "1"
			} else {
				assert.NotContains(t, err.Error(), `"n/a" at`)
			}
			assert.True(t, c.Holds(keyA(), Version{"u1", last}))
			assert.Equal(t, []string{"n/a", "n/b", "n/c", "n/d"}, names(c.All()))
		})
	}
}

func TestTransformPassesOnWhatAListTellsBesideItsObjects(t *testing.T) {
	c, pods, _ := slims()
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1"), pod("n", "b", "u2", "1")}, "1"))
	heard := listen(c)
	err := Batches(pods).ReplaceAll(Listing[*corev1.Pod]{
		Objects:         []*corev1.Pod{pod("n", "c", "", "")},
		Identities:      []Identity{{Version: Version{"u3", "2"}}},
		Unchanged:       []Key{{Namespace: "n", Name: "a"}},
		Lacking:         []Rejection{{Key: Key{Namespace: "n", Name: "b"}, Err: errRefused}},
		ResourceVersion: "3",
	})
	require.ErrorIs(t, err, errRefused)
	assert.Equal(t, []string{"Addition n/c u3@2"}, heard.changes)
	assert.Equal(t, []string{"n/a", "n/b", "n/c"}, names(c.All()))
}

func TestTransformsGoInFrontOfEachOther(t *testing.T) {
	c := New(func(node string) (Key, error) { return Key{Namespace: "n", Name: node}, nil })
	slims := Transform(c, slimKey, func(s *slim) (string, error) { return s.name, nil })
	pods := Transform(slims, ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.NoError(t, pods.Update(pod("n", "a", "u1", "2")))
	assert.Equal(t, "2", pods.ResourceVersion())
	assert.True(t, c.Holds(Key{Namespace: "n", Name: "a"}, Version{"u1", "2"}))

	require.ErrorIs(t, pods.Update(failing(pod("n", "a", "u1", "3"), "rename")), ErrKeyMismatch)
	assert.Equal(t, "2", pods.ResourceVersion())
}

func TestTransformFillsAPartition(t *testing.T) {
	c := New(slimKey)
	p, err := c.Partition(Scope{Cluster: "c1"})
	require.NoError(t, err)
	pods := Transform(p, ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.Error(t, pods.Update(failing(pod("n", "a", "u1", "2"), "error")))
	assert.Equal(t, "1", pods.ResourceVersion())
	require.NoError(t, pods.Update(pod("n", "a", "u1", "3")))
	assert.Equal(t, "3", pods.ResourceVersion())
	assert.Equal(t, []string{"c1|n/a"}, names(c.All()))
}

func TestTransformRunsBeforeTheStoreIsLocked(t *testing.T) {
	c := New(slimKey)
	calls := 0
	pods := Transform(c, ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*slim, error) {
		calls++
		if assert.True(t, c.writer.TryLock()) {
			c.writer.Unlock()
		}
		return (&slimmer{}).slim(p)
	})
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.NoError(t, pods.Update(pod("n", "a", "u1", "2")))
	require.NoError(t, pods.Delete(pod("n", "a", "u1", "3")))
	assert.Equal(t, 3, calls)
}

func TestTransformWithoutItsArguments(t *testing.T) {
	fn := (&slimmer{}).slim
	good, list := pod("n", "a", "u1", "1"), []*corev1.Pod{pod("n", "a", "u1", "1")}
	var missing *Cache[*slim]
	for name, dst := range map[string]Store[*slim]{"nil": nil, "typed nil": missing} {
		requireNoStore(t, name, Transform(dst, ObjectKey[*corev1.Pod], fn))
	}

	for cause, with := range map[error]func(*Cache[*slim]) Store[*corev1.Pod]{
		ErrNoKeyFunc: func(c *Cache[*slim]) Store[*corev1.Pod] { return Transform(c, nil, fn) },
		ErrNoFunc: func(c *Cache[*slim]) Store[*corev1.Pod] {
			return Transform[*corev1.Pod, *slim](c, ObjectKey[*corev1.Pod], nil)
		},
	} {
		c := New(slimKey)
		pods := with(c)
		var rejected *RejectedError
		require.ErrorAs(t, pods.Add(good), &rejected)
		require.ErrorIs(t, pods.Update(good), cause)
		require.ErrorIs(t, pods.Replace(list, "1"), cause)
		assert.Zero(t, c.Len())
		assert.Empty(t, pods.ResourceVersion())
	}
}

// requireNoStore expects that a decorator says that it has nowhere to write to.
func requireNoStore(t *testing.T, name string, s Store[*corev1.Pod]) {
	t.Helper()
	b, good := Batches(s), pod("n", "a", "u1", "1")
	require.ErrorIs(t, s.Add(good), ErrNoStore, name)
	require.ErrorIs(t, s.Update(good), ErrNoStore, name)
	require.ErrorIs(t, s.Delete(good), ErrNoStore, name)
	require.ErrorIs(t, s.DeleteKey(Key{Name: "a"}), ErrNoStore, name)
	require.ErrorIs(t, s.Replace(nil, "1"), ErrNoStore, name)
	require.ErrorIs(t, s.Bookmark("1"), ErrNoStore, name)
	require.ErrorIs(t, b.Apply(batchOf(Write[*corev1.Pod]{Type: WriteAdd, Object: good})), ErrNoStore, name)
	require.ErrorIs(t, b.ReplaceAll(Listing[*corev1.Pod]{}), ErrNoStore, name)
	assert.False(t, b.Holds(Key{Name: "a"}, Version{"u1", "1"}), name)
	assert.Empty(t, s.ResourceVersion(), name)
}

func TestTransformMayBeWrittenToByMany(t *testing.T) {
	c := New(slimKey)
	pods := Transform(c, ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*slim, error) { return &slim{name: p.Name}, nil })
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				name := strconv.Itoa(i*50 + j)
				assert.NoError(t, pods.Add(pod("", name, "u"+name, "1")))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 200, c.Len())
}
