package store

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// shelves is a cache of books of which no two should have one first tag.
type shelves struct {
	*Cache[book]
	byTag   *UniqueIndex[string, book]
	clashes []string
}

func firstTag(b book) (string, bool) {
	if len(b.tags) == 0 {
		return "", false
	}
	return b.tags[0], true
}

func newShelves(t *testing.T, books ...book) *shelves {
	s := &shelves{Cache: New(bookKey)}
	require.NoError(t, s.Replace(books, "1"))
	var err error
	s.byTag, err = AddUniqueIndex(s.Cache, "tag", firstTag, s.clashed)
	require.NoError(t, err)
	return s
}

func (s *shelves) clashed(c Clash[string, book]) {
	s.clashes = append(s.clashes, fmt.Sprintf("%s: %v(%d) took it from %v(%d)", c.Value, c.Key, len(c.Object.tags), c.OtherKey, len(c.Other.tags)))
}

// reported returns the clashes since the last call.
func (s *shelves) reported() []string {
	all := s.clashes
	s.clashes = nil
	return all
}

func (s *shelves) holder(t *testing.T, tag string) string {
	checkIndex(t, &s.byTag.reader)
	key, object, ok := s.byTag.Get(tag)
	if !ok {
		assert.Zero(t, key)
		return ""
	}
	got, _ := firstTag(object)
	assert.Equal(t, tag, got)
	return key.Name
}

func tagged(name string, tags ...string) book { return book{title: name, tags: tags} }

func TestLastToGetAUniqueValueHoldsIt(t *testing.T) {
	s := newShelves(t)
	require.NoError(t, s.Add(tagged("b", "x")))
	assert.Equal(t, "b", s.holder(t, "x"))
	assert.Empty(t, s.reported())
	require.NoError(t, s.Add(tagged("a", "x")))
	assert.Equal(t, "a", s.holder(t, "x"), "whatever the order of the keys")
	assert.Equal(t, []string{"x: a(1) took it from b(1)"}, s.reported())
	require.NoError(t, s.Add(tagged("c", "x")))
	assert.Equal(t, []string{"x: c(1) took it from a(1)"}, s.reported(), "told of the last holder only")
	assert.Equal(t, []string{"x"}, slices.Collect(s.byTag.Values()), "one value, however many have it")

	require.NoError(t, s.Update(tagged("b", "x", "more")))
	require.NoError(t, s.Update(tagged("c", "x", "more")))
	require.NoError(t, s.Bookmark("9"))
	require.NoError(t, s.Add(tagged("d", "y")))
	assert.Equal(t, "c", s.holder(t, "x"), "a change of something else gives nobody the value")
	assert.Empty(t, s.reported(), "and is no new clash")

	require.NoError(t, s.DeleteKey(Key{Name: "c"}))
	assert.Equal(t, "a", s.holder(t, "x"))
	require.NoError(t, s.Update(tagged("a", "z")))
	assert.Equal(t, "b", s.holder(t, "x"))
	assert.Empty(t, s.reported(), "an end of a clash is none")
	require.NoError(t, s.Update(tagged("a", "x")))
	assert.Equal(t, []string{"x: a(1) took it from b(2)"}, s.reported(), "a new clash")
	require.NoError(t, s.DeleteKey(Key{Name: "a"}))
	require.NoError(t, s.DeleteKey(Key{Name: "b"}))
	assert.Empty(t, s.holder(t, "x"))
}

func TestValuesThatChangeHandsInOneCommitDoNotClash(t *testing.T) {
	for name, tt := range map[string]struct {
		batch []book
		want  []string
		x     string
	}{
		"given, then taken":              {[]book{tagged("a", "y"), tagged("b", "x")}, nil, "b"},
		"taken, then given":              {[]book{tagged("b", "x"), tagged("a", "y")}, nil, "b"},
		"taken and given back":           {[]book{tagged("b", "x"), tagged("b", "z")}, nil, "a"},
		"swapped":                        {[]book{tagged("a", "b"), tagged("b", "x")}, nil, "b"},
		"taken twice":                    {[]book{tagged("b", "x"), tagged("b", "x", "2")}, []string{"x: b(2) took it from a(1)"}, "b"},
		"taken by two":                   {[]book{tagged("b", "x"), tagged("c", "x")}, []string{"x: b(1) took it from a(1)", "x: c(1) took it from b(1)"}, "c"},
		"taken, and the old one changes": {[]book{tagged("b", "x"), tagged("a", "x", "2")}, []string{"x: b(1) took it from a(2)"}, "b"},
		"new, both":                      {[]book{tagged("c", "n"), tagged("d", "n")}, []string{"n: d(1) took it from c(1)"}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelves(t, tagged("a", "x"), tagged("b", "b"))
			var batch Batch[book]
			for _, b := range tt.batch {
				batch.Update(b)
			}
			require.NoError(t, s.Apply(&batch))
			assert.Equal(t, tt.want, s.reported())
			assert.Equal(t, tt.x, s.holder(t, "x"))
			checkCache(t, s.Cache)
		})
	}
}

func TestObjectThatIsCreatedAgainGetsItsValueAnew(t *testing.T) {
	for name, write := range map[string]func(*Cache[*corev1.Pod], *corev1.Pod) error{
		"update": func(c *Cache[*corev1.Pod], p *corev1.Pod) error { return c.Update(p) },
		"replace": func(c *Cache[*corev1.Pod], p *corev1.Pod) error {
			return c.Replace([]*corev1.Pod{p, host("b", "u2")}, "9")
		},
		"batch": func(c *Cache[*corev1.Pod], p *corev1.Pod) error {
			later := p.DeepCopy()
			later.ResourceVersion = "later"
			return c.Apply(&Batch[*corev1.Pod]{writes: []Write[*corev1.Pod]{{Type: WriteUpdate, Object: p}, {Type: WriteUpdate, Object: later}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			var clashes []string
			x, err := AddUniqueIndex(c, "host", func(p *corev1.Pod) (string, bool) { return p.Spec.Hostname, true }, func(c Clash[string, *corev1.Pod]) {
				clashes = append(clashes, c.Key.Name+" took it from "+c.OtherKey.Name)
			})
			require.NoError(t, err)
			require.NoError(t, c.Add(host("a", "u1")))
			require.NoError(t, c.Add(host("b", "u2")))
			clashes = nil
			later := host("a", "u1")
			later.ResourceVersion = "3"
			require.NoError(t, c.Update(later))
			assert.Empty(t, clashes, "the same object")

			require.NoError(t, write(c, host("a", "u3")))
			key, _, _ := x.Get("x")
			assert.Equal(t, "a", key.Name)
			assert.Equal(t, []string{"a took it from b"}, clashes)
			checkCache(t, c)
			checkIndex(t, &x.reader)
		})
	}
}

// host returns a pod with the host name x.
func host(name, uid string) *corev1.Pod {
	p := pod("", name, uid, "1")
	p.Spec.Hostname = "x"
	return p
}

func TestReplaceReportsClashesOfWhatIsNew(t *testing.T) {
	s := newShelves(t, tagged("a", "x"))
	require.NoError(t, s.Replace([]book{tagged("b", "x")}, "2"))
	assert.Empty(t, s.reported(), "the old one is gone")
	require.NoError(t, s.Replace([]book{tagged("c", "x"), tagged("b", "x")}, "3"))
	assert.Equal(t, []string{"x: c(1) took it from b(1)"}, s.reported())
	assert.Equal(t, "c", s.holder(t, "x"))
}

func TestLateUniqueIndexReportsWhatClashesAlready(t *testing.T) {
	s := newShelves(t, tagged("a", "x"), tagged("b", "x"), tagged("c", "y"), tagged("d"))
	assert.Equal(t, []string{"x: b(1) took it from a(1)"}, s.reported())
	assert.Equal(t, "b", s.holder(t, "x"))
	require.NoError(t, s.Add(tagged("d", "d")))
	assert.Empty(t, s.reported(), "not again")
}

func TestPanicOfAClashHookIsToldAndChangesNothing(t *testing.T) {
	c := New(bookKey)
	calls := 0
	x, err := AddUniqueIndex(c, "tag", firstTag, func(clash Clash[string, book]) {
		calls++
		if got, ok := c.Get(clash.Key); !ok || len(got.tags) == 0 || c.Snapshot().Len() != c.Len() {
			t.Error("the commit is not visible")
		}
		panic("hook")
	})
	require.NoError(t, err)
	rec := 0
	c.Follow(bookFollower(func(commit *Commit[book]) { rec += len(commit.Changes) }))
	require.NoError(t, c.Add(tagged("a", "x")))

	err = c.Add(tagged("b", "x"))
	require.ErrorIs(t, err, ErrPanic)
	var hookError *HookError
	require.ErrorAs(t, err, &hookError)
	assert.Equal(t, "tag", hookError.Index)
	assert.Equal(t, Key{Name: "b"}, hookError.Key)
	assert.ErrorContains(t, err, `index "tag": stored, but the function for clashes failed for "b": panic: hook`)
	var indexError *IndexError
	assert.NotErrorAs(t, err, &indexError)
	var rejected *RejectedError
	assert.NotErrorAs(t, err, &rejected)
	assert.Equal(t, 2, c.Len(), "the write was made")
	assert.Equal(t, 2, rec)

	var batch Batch[book]
	batch.Add(tagged("c", "x"))
	batch.Add(tagged("d", "x"))
	batch.Append(Write[book]{})
	changes, err := c.Commit(&batch)
	require.ErrorAs(t, err, &hookError)
	require.ErrorAs(t, err, &rejected)
	assert.Len(t, changes, 2)
	assert.Equal(t, 3, calls, "a panic does not stop the next call")
	checkCache(t, c)
	checkIndex(t, &x.reader)

	late, err := AddUniqueIndex(c, "late", firstTag, func(Clash[string, book]) { panic("hook") })
	require.ErrorIs(t, err, ErrPanic)
	require.ErrorAs(t, err, &hookError)
	require.NotNil(t, late, "it was added")
	assert.Equal(t, []string{"x"}, slices.Collect(late.Values()))
}

type bookFollower func(*Commit[book])

func (bookFollower) Start(*Snapshot[book])    {}
func (f bookFollower) Commit(c *Commit[book]) { f(c) }

func TestClaimsOfOneHashAreToldApartByValue(t *testing.T) {
	s := newShelves(t)
	hash := s.byTag.hash("y")
	s.byTag.vocabulary.hash = func(string) uint64 { return hash }
	require.NoError(t, s.Add(tagged("a", "x")))
	require.NoError(t, s.Add(tagged("b", "y")))
	require.NoError(t, s.Add(tagged("c", "x")))
	require.NoError(t, s.Add(tagged("d", "y")))
	assert.Equal(t, []string{"x: c(1) took it from a(1)", "y: d(1) took it from b(1)"}, s.reported())
	assert.Equal(t, "d", s.holder(t, "y"))
}

func TestAValueThatAllShareCostsEachOneLook(t *testing.T) {
	// With a look at all rivals, this takes many seconds.
	const n = 20_000
	clashes := 0
	c := New(bookKey)
	_, err := AddUniqueIndex(c, "tag", firstTag, func(Clash[string, book]) { clashes++ })
	require.NoError(t, err)
	all := make([]book, n)
	for i := range all {
		all[i] = tagged(strconv.Itoa(i), "x")
	}
	require.NoError(t, c.Replace(all, "1"))
	assert.Equal(t, n-1, clashes)
	assert.LessOrEqual(t, cap(c.indexes[0].clashes.claimed), maxScratch)
}
