package decorate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// decorators are one of each, in front of a store, that change nothing.
var decorators = map[string]func(store.Store[*corev1.Pod]) store.Store[*corev1.Pod]{
	"Transform": same,
	"Transform of Transform": func(dst store.Store[*corev1.Pod]) store.Store[*corev1.Pod] {
		return same(same(dst))
	},
}

// same returns a Transform that changes nothing.
func same(dst store.Store[*corev1.Pod]) store.Store[*corev1.Pod] {
	return Transform(dst, store.ObjectKey[*corev1.Pod], func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil })
}

// shouting embeds a store with batches, and overrides one of its methods.
type shouting struct {
	store.BatchStore[*corev1.Pod]
	added []string
}

func (s *shouting) Add(p *corev1.Pod) error {
	s.added = append(s.added, p.Name)
	return s.BatchStore.Add(p)
}

func TestDecoratorsAreNotBypassedThroughBatches(t *testing.T) {
	writes := []store.Write[*corev1.Pod]{adding(pod("n", "a", "u1", "1")), adding(pod("n", "b", "u2", "2"))}
	for name, decorate := range decorators {
		t.Run(name+" inside", func(t *testing.T) {
			c := newPods()
			around := &shouting{BatchStore: decorate(c).(store.BatchStore[*corev1.Pod])}
			require.NoError(t, apply(store.Store[*corev1.Pod](around), "", writes...))
			assert.Equal(t, []string{"a", "b"}, around.added)
			assert.Equal(t, 2, c.Len())
		})
		t.Run(name+" outside", func(t *testing.T) {
			c := newPods()
			behind := &shouting{BatchStore: c}
			pods := decorate(behind)
			require.NoError(t, pods.Add(pod("n", "c", "u3", "3")))
			require.NoError(t, apply(pods, "", writes...))
			assert.Equal(t, []string{"c", "a", "b"}, behind.added)
			assert.Equal(t, 3, c.Len())
			assert.False(t, has(pods, inN("c"), store.Version{UID: "u3", ResourceVersion: "3"}, 7), "a plain store cannot keep it")
		})
	}
}

func TestDecoratorsPassABatchOnAsOne(t *testing.T) {
	for name, decorate := range decorators {
		c := newPods()
		pods := decorate(c)
		rec := follow(c)
		b, own := BeginWatch(pods)
		require.True(t, own, name)
		err := commit(b, "",
			adding(pod("n", "a", "u1", "1")),
			updating(pod("n", "a", "u1", "2")),
			adding(pod("n", "b", "u2", "3")),
			deleting(pod("n", "a", "u1", "4")),
			adding(pod("n", "c", "u3", "5")),
			store.Write[*corev1.Pod]{Type: store.Deletion, Key: inN("b")},
			store.Write[*corev1.Pod]{Key: inN("d"), Err: errRefused},
			store.Write[*corev1.Pod]{Key: store.Key{Name: "no type"}},
		)
		require.ErrorIs(t, err, errRefused, name)
		require.ErrorContains(t, err, "without a known type", name)
		assert.Equal(t, 1, rec.commits, name)
		assert.Empty(t, rec.illegal, name)
		assert.Equal(t, []string{"n/c"}, names(c.All()), name)

		require.NoError(t, commit(b, "", updating(pod("n", "c", "u3", "6")), deleting(pod("n", "c", "u3", "7")),
			store.Write[*corev1.Pod]{Type: store.Addition, Object: pod("n", "c", "u3", "8"), Hash: 7}), name)
		assert.Equal(t, 2, rec.commits, "%s: a batch can be used again", name)
		_ = b.Write(adding(pod("n", "e", "u4", "9")))
		b.Discard()
		require.NoError(t, commit(b, "10"), name)
		assert.Equal(t, []string{"n/c"}, names(c.All()), name)

		before := rec.commits
		b, own = BeginList(pods)
		require.True(t, own, name)
		b.Keep(inN("c"))
		require.NoError(t, b.Commit("11"), name)
		assert.Equal(t, before+1, rec.commits, name)
		assert.True(t, has(pods, inN("c"), store.Version{UID: "u3", ResourceVersion: "8"}, 7), name)
		assert.False(t, has(pods, inN("c"), store.Version{UID: "u3", ResourceVersion: "9"}, 7), name)
		assert.Equal(t, "11", pods.ResourceVersion(), name)
	}
}

func TestTransformDoesNotJudgeWritesWithoutAType(t *testing.T) {
	fn := &slimmer{}
	for _, replace := range []bool{false, true} {
		b, _ := begin(Transform(store.New(slimKey), store.ObjectKey[*corev1.Pod], fn.slim), replace)
		err := commit(b, "1", store.Write[*corev1.Pod]{Object: failing(pod("n", "a", "u1", "1"), "error")})
		require.ErrorContains(t, err, "without a known type", replace)
		assert.NotErrorIs(t, err, errRefused, replace)
	}
	assert.Zero(t, fn.calls)
}

// waking is a store that wants to know when it is in touch with the server.
type waking struct {
	store.Store[*corev1.Pod]
	resumed int
}

func (w *waking) Resumed() { w.resumed++ }

func TestDecoratorsHandResumedOn(t *testing.T) {
	for name, decorate := range decorators {
		behind := &waking{Store: newPods()}
		decorate(decorate(behind)).(interface{ Resumed() }).Resumed()
		assert.Equal(t, 1, behind.resumed, name)
		assert.NotPanics(t, decorate(newPods()).(interface{ Resumed() }).Resumed, name)
	}
}

func TestDecoratorsTakeAListAsItComes(t *testing.T) {
	for name, decorate := range decorators {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				whole, parts := newPods(), newPods()
				var list []*corev1.Pod
				b, _ := BeginList(decorate(decorate(parts)))
				for round := range 2 {
					list = list[:0]
					for range rapid.IntRange(0, 12).Draw(t, "objects") {
						p := pod("n", rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "name"), "1", strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "version")))
						list = append(list, p)
						require.NoError(t, b.Write(adding(p)))
						if rapid.IntRange(0, 3).Draw(t, "takes back") == 0 {
							key := store.Key{Namespace: "n", Name: p.Name}
							list = slices.DeleteFunc(list, func(p *corev1.Pod) bool { return p.Name != "" && p.Name == key.Name })
							require.NoError(t, b.Write(store.Write[*corev1.Pod]{Type: store.Deletion, Key: key}))
						}
					}
					version := strconv.Itoa(10 + round)
					want := whole.Replace(slices.Clone(list), version)
					require.Equal(t, fmt.Sprint(want), fmt.Sprint(b.Commit(version)))
					require.Equal(t, maps.Collect(whole.All()), maps.Collect(parts.All()))
					require.Equal(t, whole.ResourceVersion(), parts.ResourceVersion())
				}
			})
		})
	}
}

func TestDecoratorsWithoutAStorePanic(t *testing.T) {
	var missing *store.Cache[*corev1.Pod]
	for name, decorate := range decorators {
		assert.Panics(t, func() { decorate(nil) }, name)
		assert.Panics(t, func() { decorate(missing) }, "%s: typed nil", name)
	}
}

func TestTransformTellsItsKeys(t *testing.T) {
	pods := Transform(store.New(slimKey), store.ObjectKey[*corev1.Pod], (&slimmer{}).slim)
	key, err := pods.(interface {
		KeyOf(*corev1.Pod) (store.Key, error)
	}).KeyOf(pod("n", "a", "u1", "1"))
	require.NoError(t, err)
	assert.Equal(t, keyA(), key)
}

// These tests are about the adapter that Begin makes for a plain store.

var errUndecodable = errors.New("undecodable")

// overriding is a user's wrapper that has everything from the store that it embeds, but its own Add
// and Replace.
type overriding struct {
	store.BatchStore[*corev1.Pod]
	added, replaced int
}

func (o *overriding) Add(p *corev1.Pod) error { o.added++; return o.BatchStore.Add(p) }

func (o *overriding) Replace(all []*corev1.Pod, version string) error {
	o.replaced++
	return o.BatchStore.Replace(all, version)
}

// willing is a wrapper that means its batches.
type willing struct{ *store.Cache[*corev1.Pod] }

func (w *willing) BeginBatch(self store.Store[*corev1.Pod], replace bool) store.Batch[*corev1.Pod] {
	if self != store.Store[*corev1.Pod](w) {
		return nil
	}
	return w.Cache.BeginBatch(w.Cache, replace)
}

func TestBatchesAreMadeByTheStoreItself(t *testing.T) {
	c := newPods()
	p, err := c.Partition(store.Scope{Namespace: "n"})
	require.NoError(t, err)
	for want, stores := range map[bool][]store.Store[*corev1.Pod]{
		true:  {c, p, &willing{c}},
		false: {&overriding{BatchStore: c}, &overriding{BatchStore: p}, &overriding{BatchStore: &willing{c}}, &plain[*corev1.Pod]{Store: c}},
	} {
		for _, s := range stores {
			for _, replace := range []bool{false, true} {
				_, own := begin(s, replace)
				assert.Equal(t, want, own, "%T", s)
			}
		}
	}
}

// failing is a write of an object that could not be decoded.
func undecodable(name string) store.Write[*corev1.Pod] {
	return store.Write[*corev1.Pod]{Key: store.Key{Name: name}, Err: errUndecodable}
}

func TestBatchesDoNotBypassAWrapper(t *testing.T) {
	c := newPods()
	o := &overriding{BatchStore: c}
	var rejected *store.RejectedError
	require.ErrorAs(t, apply[*corev1.Pod](o, "4",
		adding(pod("", "a", "u1", "1")),
		adding[*corev1.Pod](nil),
		updating(pod("", "b", "u2", "2")),
		deleting(pod("", "a", "u1", "3")),
		adding(pod("", "", "u", "3")),
		store.Write[*corev1.Pod]{Type: store.Deletion, Key: store.Key{Name: "b"}},
		store.Write[*corev1.Pod]{},
	), &rejected)
	require.Len(t, rejected.Rejections, 3, "of all writes, in one error")
	assert.ErrorIs(t, rejected.Rejections[0].Err, store.ErrBadKey)
	assert.ErrorIs(t, rejected.Rejections[1].Err, store.ErrBadKey)
	assert.ErrorIs(t, rejected.Rejections[2].Err, errNoWrite)
	assert.Equal(t, 3, o.added)
	assert.Zero(t, c.Len())

	require.NoError(t, replaced(o, "5", adding(pod("", "a", "u1", "5"))))
	assert.Equal(t, 1, o.replaced)

	requireRefused(t, replaced(o, "6", undecodable("b")), errUndecodable)
	list, _ := BeginList[*corev1.Pod](o)
	list.Keep(store.Key{Name: "a"})
	requireRefused(t, list.Commit("6"), store.ErrNotHeld)
	assert.Equal(t, 1, o.replaced, "a list that Replace cannot be told is refused")
	assert.Equal(t, "5", c.ResourceVersion())

	err := apply[*corev1.Pod](o, "", adding(pod("", "b", "u2", "6")), undecodable("b"), adding(pod("", "c", "u3", "8")))
	require.ErrorAs(t, err, &rejected)
	require.ErrorContains(t, err, "nothing was stored", "the last write was not made")
	assert.Equal(t, []string{"a", "b"}, names(c.All()), "it ends at the failed object")
	assert.Equal(t, "6", c.ResourceVersion())

	err = apply[*corev1.Pod](o, "", adding(pod("", "b", "u2", "7")), undecodable("b"))
	require.ErrorAs(t, err, &rejected)
	require.NotContains(t, err.Error(), "nothing was stored", "everything else was stored")
}

// replaced makes writes the content of a store.
func replaced(s store.Store[*corev1.Pod], resourceVersion string, writes ...store.Write[*corev1.Pod]) error {
	b, _ := BeginList(s)
	return commit(b, resourceVersion, writes...)
}

func TestListForAPlainStoreHasTheLastWordOnEachKey(t *testing.T) {
	c := newPods()
	batch, own := BeginList[*corev1.Pod](&plain[*corev1.Pod]{Store: c})
	require.False(t, own)
	batch.Keep(store.Key{Name: "b"}) // which is written below
	require.NoError(t, commit(batch, "9",
		adding(pod("", "a", "u1", "1")), deleting(pod("", "a", "u1", "2")),
		adding(pod("", "b", "u2", "1")), adding(pod("", "b", "u2", "2")),
		undecodable("c"), adding(pod("", "c", "u3", "2")),
		adding(pod("", "d", "u4", "1")), store.Write[*corev1.Pod]{Type: store.Deletion, Key: store.Key{Name: "d"}},
	))
	assert.Equal(t, []string{"b", "c"}, names(c.All()))
	assert.Equal(t, "9", c.ResourceVersion())
}

// keyless is an object that does not say its name.
type keyless string

func TestListForAPlainStoreUsesItsKeys(t *testing.T) {
	type embedding struct{ *store.Cache[keyless] } // has KeyOf, and no batches of its own
	c := store.New(func(name keyless) (store.Key, error) { return store.Key{Name: string(name)}, nil })
	for s, want := range map[store.Store[keyless]][]string{
		embedding{c}:              {"b"}, // the last write of the key a deletes it
		&plain[keyless]{Store: c}: {"a", "b"},
	} {
		b, own := BeginList(s)
		require.False(t, own)
		require.NoError(t, commit(b, "9", adding(keyless("a")), adding(keyless("b")),
			store.Write[keyless]{Type: store.Deletion, Key: store.Key{Name: "a"}}))
		assert.Equal(t, want, names(c.All()), "%T", s)
	}
}

func TestWriteWithoutATypeIsRejectedForAPlainStore(t *testing.T) {
	none := store.Write[*corev1.Pod]{Key: store.Key{Name: "a"}}
	require.ErrorIs(t, apply[*corev1.Pod](&plain[*corev1.Pod]{Store: newPods()}, "", none), errNoWrite)
	requireRefused(t, replaced(&plain[*corev1.Pod]{Store: newPods()}, "1", none), errNoWrite)
}

// broken is a store with an Add that fails in its own way.
type broken struct{ store.Store[*corev1.Pod] }

func (broken) Add(*corev1.Pod) error { return errUndecodable }

func TestBatchesReturnErrorsOfAnyKind(t *testing.T) {
	s := broken{newPods()}
	err := apply[*corev1.Pod](s, "", adding(pod("", "a", "", "")), updating[*corev1.Pod](nil))
	require.ErrorIs(t, err, errUndecodable)
	require.ErrorIs(t, err, store.ErrBadKey)
	require.NoError(t, apply[*corev1.Pod](s, "", updating(pod("", "a", "", ""))))
}
