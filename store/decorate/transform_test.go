package decorate

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubereflector/kubereflector/internal/panicked"
	"github.com/kubereflector/kubereflector/store"
)

// slim is the kept part of a pod, without a version.
type slim struct{ namespace, name, node string }

func slimKey(s *slim) (store.Key, error) {
	if s.name == "" {
		return store.Key{}, store.ErrBadKey
	}
	return store.Key{Namespace: s.namespace, Name: s.name}, nil
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
func slims() (*store.Cache[*slim], store.Store[*corev1.Pod], *slimmer) {
	c, s := store.New(slimKey), &slimmer{}
	return c, Transform(c, store.ObjectKey[*corev1.Pod], s.slim), s
}

// told is a follower that describes its commits in words.
type told[T any] struct {
	changes []string
	commits int
}

func listen[T any](c *store.Cache[T]) *told[T] {
	f := &told[T]{}
	c.Follow(f)
	return f
}

func (f *told[T]) Start(*store.Snapshot[T]) {}

func (f *told[T]) Commit(c *store.Commit[T]) {
	f.commits++
	for _, ch := range c.Changes {
		word := fmt.Sprintf("%v %v %s@%s", ch.Type, ch.Key, ch.Version.UID, ch.Version.ResourceVersion)
		if ch.Type == store.Deletion && !ch.FinalStateKnown {
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
	held, _ := c.Get(keyA())

	require.NoError(t, pods.Update(pod("n", "b", "u2", "3")))
	assert.Equal(t, []string{"Modification n/b u2@3"}, hear())
	assert.Equal(t, "3", pods.ResourceVersion(), "the slim object does not say it")

	calls := fn.calls
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1"), pod("n", "b", "u2", "4")}, "5"))
	assert.Equal(t, []string{"Modification n/b u2@4"}, hear())
	assert.Equal(t, 2, fn.calls-calls, "without hashes, only the results can be compared")
	again, _ := c.Get(keyA())
	assert.Same(t, held, again)
	assert.Equal(t, "5", pods.ResourceVersion())

	require.NoError(t, pods.Add(pod("n", "a", "u9", "6")))
	assert.Equal(t, []string{"Deletion n/a u1@1 unseen", "Addition n/a u9@6"}, hear(), "another UID is another object")
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u9", "6"), pod("n", "b", "u10", "7")}, "7"))
	assert.Equal(t, []string{"Deletion n/b u2@4 unseen", "Addition n/b u10@7"}, hear())

	require.NoError(t, pods.Delete(pod("n", "a", "u9", "8")))
	assert.Equal(t, []string{"Deletion n/a u9@8"}, hear(), "the last state is transformed, too")
	assert.Equal(t, "8", pods.ResourceVersion())
	require.NoError(t, pods.DeleteKey(inN("b")))
	assert.Equal(t, []string{"Deletion n/b u10@7 unseen"}, hear())
	require.NoError(t, pods.Bookmark("9"))
	assert.Equal(t, "9", pods.ResourceVersion())
	assert.Zero(t, c.Len())
}

func TestTransformTellsHowItsObjectsAreHeld(t *testing.T) {
	_, pods, _ := slims()
	require.NoError(t, apply(pods, "1", store.Write[*corev1.Pod]{Type: store.Addition, Object: pod("n", "a", "u1", "1"), Hash: 7}))
	holds := pods.(store.BatchStore[*corev1.Pod]).Has
	assert.True(t, holds(keyA(), store.Version{UID: "u1", ResourceVersion: "1"}, 7))
	assert.False(t, holds(keyA(), store.Version{UID: "u1", ResourceVersion: "1"}, 8))
	assert.False(t, holds(keyA(), store.Version{UID: "u1", ResourceVersion: "2"}, 7))
	assert.False(t, holds(keyA(), store.Version{UID: "", ResourceVersion: "1"}, 7))
}

func TestTransformRejectsWhatItsFunctionRefuses(t *testing.T) {
	for how, cause := range map[string]error{
		"error": errRefused, "panic": store.ErrPanic, "nil": store.ErrBadKey, "rename": store.ErrBadKey, "nameless": store.ErrBadKey,
	} {
		t.Run(how, func(t *testing.T) {
			c, pods, _ := slims()
			require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
			held, _ := c.Get(keyA())
			heard := listen(c)

			err := apply(pods, "",
				adding(pod("n", "before", "u2", "2")),
				updating(failing(pod("n", "a", "u1", "3"), how)),
				adding(pod("n", "after", "u3", "4")))

			var rejected *store.RejectedError
			require.ErrorAs(t, err, &rejected)
			require.Len(t, rejected.Rejections, 1)
			assert.Equal(t, keyA(), rejected.Rejections[0].Key)
			assert.Equal(t, store.Version{UID: "u1", ResourceVersion: "3"}, rejected.Rejections[0].Version)
			require.ErrorIs(t, err, cause)
			assert.Equal(t, []string{"Addition n/before u2@2", "Addition n/after u3@4"}, heard.changes, "nothing else is stopped")
			assert.Equal(t, 1, heard.commits, "a batch is one batch for the store behind")
			still, _ := c.Get(keyA())
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

			require.NoError(t, pods.DeleteKey(keyA()))
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
		require.ErrorIs(t, write(nil), store.ErrBadKey, name)
		require.ErrorIs(t, write(pod("n", "", "u1", "2")), store.ErrBadKey, name)
	}
	err := pods.Replace([]*corev1.Pod{nil, pod("n", "", "u1", "3")}, "3")
	var rejected *store.RejectedError
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Rejections, 2)
	assert.Equal(t, store.Version{UID: "u1", ResourceVersion: "3"}, rejected.Rejections[1].Version)
	assert.Equal(t, []string{"n/a"}, names(c.All()), "it is found by its UID")
	assert.Equal(t, "1", pods.ResourceVersion())
	assert.Equal(t, calls, fn.calls)
}

func TestTransformWithAKeyFuncThatPanicsKeepsWhatHasTheUID(t *testing.T) {
	c := store.New(slimKey)
	pods := Transform(c, func(p *corev1.Pod) (store.Key, error) {
		if p.Labels["fail"] != "" {
			panic("no key")
		}
		return store.ObjectKey(p)
	}, (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.ErrorIs(t, pods.Replace([]*corev1.Pod{failing(pod("n", "a", "u1", "2"), "yes")}, "2"), store.ErrPanic)
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
			assert.Equal(t, store.Version{UID: "u1", ResourceVersion: last}, versionIn(c, keyA()))
			assert.Equal(t, []string{"n/a", "n/b", "n/c", "n/d"}, names(c.All()))
		})
	}
}

func TestTransformPassesOnWhatAListTellsBesideItsObjects(t *testing.T) {
	c, pods, _ := slims()
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1"), pod("n", "b", "u2", "1")}, "1"))
	heard := listen(c)
	b, _ := BeginList(pods)
	b.Keep(keyA())
	err := commit(b, "3",
		store.Write[*corev1.Pod]{Key: inN("b"), Err: errRefused},
		store.Write[*corev1.Pod]{Type: store.Addition, Object: pod("n", "c", "", ""), Version: store.Version{UID: "u3", ResourceVersion: "2"}})
	require.ErrorIs(t, err, errRefused)
	assert.Equal(t, []string{"Addition n/c u3@2"}, heard.changes)
	assert.Equal(t, []string{"n/a", "n/b", "n/c"}, names(c.All()))
}

func TestTransformsGoInFrontOfEachOther(t *testing.T) {
	c := store.New(func(node string) (store.Key, error) { return store.Key{Namespace: "n", Name: node}, nil })
	slims := Transform(c, slimKey, func(s *slim) (string, error) { return s.name, nil })
	pods := Transform(slims, store.ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.NoError(t, pods.Update(pod("n", "a", "u1", "2")))
	assert.Equal(t, "2", pods.ResourceVersion())
	assert.Equal(t, store.Version{UID: "u1", ResourceVersion: "2"}, versionIn(c, keyA()))

	require.ErrorIs(t, pods.Update(failing(pod("n", "a", "u1", "3"), "rename")), store.ErrBadKey)
	assert.Equal(t, "2", pods.ResourceVersion())
}

func TestTransformFillsAPartition(t *testing.T) {
	c := store.New(slimKey)
	p, err := c.Partition(store.Scope{Cluster: "c1"})
	require.NoError(t, err)
	pods := Transform(p, store.ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.Error(t, pods.Update(failing(pod("n", "a", "u1", "2"), "error")))
	assert.Equal(t, "1", pods.ResourceVersion())
	require.NoError(t, pods.Update(pod("n", "a", "u1", "3")))
	assert.Equal(t, "3", pods.ResourceVersion())
	assert.Equal(t, []string{"c1|n/a"}, names(c.All()))
}

func TestTransformRunsBeforeTheStoreIsLocked(t *testing.T) {
	c := store.New(slimKey)
	calls := 0
	pods := Transform(c, store.ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*slim, error) {
		calls++
		assert.NoError(t, c.Bookmark("")) // waits for the lock of a writer
		return (&slimmer{}).slim(p)
	})
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	require.NoError(t, pods.Update(pod("n", "a", "u1", "2")))
	require.NoError(t, pods.Delete(pod("n", "a", "u1", "3")))
	assert.Equal(t, 3, calls)
}

func TestTransformWithoutItsArgumentsPanics(t *testing.T) {
	c, fn := store.New(slimKey), (&slimmer{}).slim
	assert.Panics(t, func() { Transform(c, nil, fn) })
	assert.Panics(t, func() { Transform[*corev1.Pod, *slim](c, store.ObjectKey[*corev1.Pod], nil) })
}

func TestTransformKeepsNothingOfAListThatComes(t *testing.T) {
	c, into, calls := slims()
	b, _ := BeginList(into)
	var whole []weak.Pointer[corev1.Pod]
	for n := range 100 {
		p := pod("n", strconv.Itoa(n), "1", "5")
		whole = append(whole, weak.Make(p))
		require.NoError(t, b.Write(adding(p)))
	}
	assert.Equal(t, 100, calls.calls)
	runtime.GC()
	for _, p := range whole {
		require.Nil(t, p.Value())
	}
	assert.Zero(t, c.Len())
	require.NoError(t, b.Commit("9"))
	assert.Equal(t, 100, c.Len())
	assert.Equal(t, "9", c.ResourceVersion())
}

func TestTransformIsNotCalledForWhatAListTakesBack(t *testing.T) {
	c, pods, fn := slims()
	b, _ := BeginList(pods)
	require.NoError(t, commit(b, "1", adding(pod("n", "a", "u1", "1")), adding(pod("n", "b", "u2", "1")), deleting(pod("n", "a", "u1", "1"))))
	assert.Equal(t, []string{"n/b"}, names(c.All()))
	assert.Equal(t, 2, fn.calls)
}

func TestTransformThatEndsTheGoroutineLeavesNothing(t *testing.T) {
	c := newPods()
	ends := map[string]bool{"list": true, "watch": true}
	pods := Transform(c, store.ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*corev1.Pod, error) {
		if ends[p.Name] {
			runtime.Goexit()
		}
		return p, nil
	})
	_, err := store.AddBudget(c, 10, func(*corev1.Pod) int64 { return 10 })
	require.NoError(t, err)
	for _, write := range []func() error{
		func() error {
			return pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1"), pod("n", "list", "u2", "1")}, "1")
		},
		func() error { return pods.Add(pod("n", "watch", "u2", "1")) },
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = write()
		}()
		<-done
		assert.Zero(t, c.Len())
	}
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "b", "u3", "1")}, "1"), "the budget has the room of the list again")
}

func TestVersionsAreToldToAStoreWithoutBatches(t *testing.T) {
	c := store.New(slimKey)
	pods := Transform(&plain[*slim]{Store: c}, store.ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	require.NoError(t, pods.Replace([]*corev1.Pod{pod("n", "a", "u1", "1")}, "1"))
	for i, write := range []func() error{
		func() error { return pods.Add(pod("n", "b", "u2", "2")) },
		func() error { return pods.Update(pod("n", "b", "u2", "3")) },
		func() error { return pods.Delete(pod("n", "b", "u2", "4")) },
		func() error { return pods.Delete(failing(pod("n", "b", "u2", "5"), "error")) },
	} {
		require.NoError(t, write())
		assert.Equal(t, []string{"2", "3", "4", "5"}[i], pods.ResourceVersion())
	}
	require.Error(t, pods.Add(failing(pod("n", "c", "u3", "6"), "nameless")))
	assert.Equal(t, "5", pods.ResourceVersion(), "a write that failed tells nothing")
	require.Error(t, pods.Update(failing(pod("n", "d", "u4", "7"), "error")))
	assert.Equal(t, "5", pods.ResourceVersion())
	requireRefused(t, pods.Replace([]*corev1.Pod{pod("n", "e", "u5", "8"), failing(pod("n", "a", "u1", "7"), "error")}, "8"), errRefused)
	assert.Equal(t, []string{"n/a"}, names(c.All()), "the store behind cannot keep what it is not given")
}

// bookmarked counts bookmarks.
type bookmarked struct {
	store.Store[*corev1.Pod]
	count int
}

func (b *bookmarked) Bookmark(resourceVersion string) error {
	b.count++
	return b.Store.Bookmark(resourceVersion)
}

func TestVersionsThatObjectsSayAreNotToldTwice(t *testing.T) {
	behind := &bookmarked{Store: newPods()}
	pods := Transform(behind, store.ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil })
	require.NoError(t, pods.Replace(nil, "1"))
	require.NoError(t, pods.Add(pod("n", "a", "u1", "2")))
	assert.Zero(t, behind.count)
	require.NoError(t, apply(pods, "", store.Write[*corev1.Pod]{Type: store.Deletion, Key: keyA(), Version: store.Version{UID: "u1", ResourceVersion: "3"}}))
	assert.Equal(t, 1, behind.count)
	assert.Equal(t, "3", pods.ResourceVersion())
}

func TestTransformMayBeWrittenToByMany(t *testing.T) {
	c := store.New(slimKey)
	pods := Transform(c, store.ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*slim, error) { return &slim{name: p.Name}, nil })
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

// shy is an object whose methods panic.
type shy struct{ *corev1.Pod }

func (s shy) GetUID() types.UID {
	if s.Name == "shy" {
		panic("ouch")
	}
	return s.UID
}

func TestTransformRejectsObjectsWhoseVersionPanics(t *testing.T) {
	c := store.New(store.ObjectKey[*corev1.Pod])
	pods := Transform(c, store.ObjectKey[shy], func(s shy) (*corev1.Pod, error) { return s.Pod, nil })
	require.ErrorIs(t, pods.Replace([]shy{{pod("n", "a", "u1", "1")}, {pod("n", "shy", "u2", "1")}}, "1"), store.ErrPanic)
	require.ErrorIs(t, pods.Add(shy{pod("n", "shy", "u2", "2")}), store.ErrPanic)
	require.Equal(t, 1, c.Len())
}

func TestListForAPlainStoreKeepsFewStacks(t *testing.T) {
	pods := Transform(&plain[*corev1.Pod]{Store: newPods()}, store.ObjectKey[*corev1.Pod], func(*corev1.Pod) (*corev1.Pod, error) { panic("ouch") })
	b, own := BeginList(pods)
	require.True(t, own)
	for i := range 2 * panicked.MaxStacks {
		require.NoError(t, b.Write(adding(pod("n", fmt.Sprint(i), "u", "1"))))
	}
	stacks := 0
	writes := b.(*batch[*corev1.Pod, *corev1.Pod]).into.(*plainBatch[*corev1.Pod]).writes
	require.Len(t, writes, 2*panicked.MaxStacks)
	for _, w := range writes {
		require.ErrorIs(t, w.Err, store.ErrPanic)
		stacks += strings.Count(w.Err.Error(), "[running]")
	}
	assert.Equal(t, panicked.MaxStacks, stacks)
	require.ErrorContains(t, b.Commit("1"), fmt.Sprintf("%d object(s) were rejected", 2*panicked.MaxStacks))
}
