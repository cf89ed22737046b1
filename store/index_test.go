package store

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

type book struct {
	author, title string
	tags          []string
}

func bookKey(b book) (Key, error) { return Key{Namespace: b.author, Name: b.title}, nil }

func tagsOf(b book) []string { return b.tags }

func newBooks(t *testing.T, books ...book) (*Cache[book], *Index[string, book]) {
	c := New(bookKey)
	byTag, err := AddIndex(c, "tag", tagsOf)
	require.NoError(t, err)
	require.NoError(t, c.Replace(books, ""))
	return c, byTag
}

func TestIndexFindsByEachOfManyValues(t *testing.T) {
	// Every step from one set of values to another, as client-go's
	// thread_safe_store_test.go has them.
	for _, step := range [][2][]string{
		{nil, {"x"}}, {{"x"}, nil}, {{"x"}, {"y"}}, {{"x"}, {"x", "y"}}, {{"x", "y"}, {"x"}},
		{{"x", "y"}, {"y", "z"}}, {{"x", "x"}, {"x"}}, {{"x"}, {"x", "x", "y"}},
	} {
		c, byTag := newBooks(t, book{"a", "other", []string{"x"}})
		require.NoError(t, c.Add(book{"a", "b", step[0]}))
		require.NoError(t, c.Update(book{"a", "b", step[1]}))
		for _, tag := range []string{"x", "y", "z"} {
			var want []string
			if slices.Contains(step[1], tag) {
				want = append(want, "a/b")
			}
			if tag == "x" {
				want = append(want, "a/other")
			}
			assert.ElementsMatch(t, want, names(byTag.Get(tag)), "%v: %s", step, tag)
		}
		require.NoError(t, c.DeleteKey(Key{Namespace: "a", Name: "b"}))
		assert.Equal(t, []string{"x"}, slices.Collect(byTag.Values()), "values of deleted objects are gone (kubernetes/kubernetes#84959)")
	}
}

func TestIndexReadsRunInTheOrderOfKeys(t *testing.T) {
	_, byTag := newBooks(t, book{"b", "1", []string{"x"}}, book{"a", "2", []string{"x"}}, book{"a", "1", []string{"x"}})
	assert.Equal(t, []string{"a/1", "a/2", "b/1"}, names(byTag.Get("x")))
}

func TestIndexAddedLateCoversWhatIsThere(t *testing.T) {
	c, _ := newBooks(t, book{"a", "1", []string{"x"}}, book{"b", "2", nil})
	assert.Len(t, names(c.All()), 2, "a snapshot that does not know the index")
	byAuthor, err := AddIndex(c.View(), "author", func(b book) []string { return []string{b.author} })
	require.NoError(t, err)
	assert.Equal(t, []string{"a/1"}, names(byAuthor.Get("a")))
	require.NoError(t, c.Update(book{"a", "1", nil}))
	require.NoError(t, c.Add(book{"a", "3", nil}))
	assert.Equal(t, []string{"a/1", "a/3"}, names(byAuthor.Get("a")))
	assert.Equal(t, "author", byAuthor.Name())
}

func TestIndexNameIsTakenOnce(t *testing.T) {
	c, _ := newBooks(t)
	_, err := AddIndex[book, string](c, "nothing", nil)
	require.ErrorIs(t, err, ErrNoIndexFunc)
	_, err = AddIndex(c, "tag", tagsOf)
	require.ErrorIs(t, err, ErrIndexExists)
	assert.ErrorContains(t, err, `"tag"`)
}

func TestIndexThatPanicsOnWhatIsThereIsNotAdded(t *testing.T) {
	c, _ := newBooks(t, book{"a", "1", nil})
	_, err := AddIndex(c, "bad", func(b book) []string { return b.tags[:1] })
	var indexError *IndexError
	require.ErrorAs(t, err, &indexError)
	assert.Equal(t, "bad", indexError.Index)
	assert.Equal(t, Key{Namespace: "a", Name: "1"}, indexError.Key)
	_, err = AddIndex(c, "bad", tagsOf)
	assert.NoError(t, err, "the name is still free")
}

func TestPanicOfAnIndexFunctionLeavesObjectAndIndexes(t *testing.T) {
	c, byTag := newBooks(t)
	_, err := AddIndex(c, "first", func(b book) []string { return b.tags[:1] })
	require.NoError(t, err)
	require.NoError(t, c.Add(book{"a", "1", []string{"x"}}))

	require.ErrorIs(t, c.Update(book{"a", "1", nil}), ErrPanic)

	assert.Equal(t, []string{"a/1"}, names(byTag.Get("x")), "the old value is still found")
	got, _ := c.Get(Key{Namespace: "a", Name: "1"})
	assert.Equal(t, []string{"x"}, got.tags)
	require.NoError(t, c.Update(book{"a", "1", []string{"y"}}))
	assert.Equal(t, []string{"y"}, slices.Collect(byTag.Values()))
}

func TestPostingsOfOneHashAreToldApartByValue(t *testing.T) {
	// A collision of maphash cannot be provoked from outside.
	c := New(bookKey)
	x, err := AddIndex(c, "tag", tagsOf)
	require.NoError(t, err)
	x.vocabulary.hash = func(string) uint64 { return x.hash("all the same") }
	require.NoError(t, c.Add(book{"a", "2", []string{"y", "z"}}))
	require.NoError(t, c.Add(book{"a", "1", []string{"x", "all the same", "y"}}))
	assert.Equal(t, []string{"a/1"}, names(x.Get("all the same")))
	assert.ElementsMatch(t, []string{"x", "y", "z", "all the same"}, slices.Collect(x.Values()))
	require.NoError(t, c.Update(book{"a", "1", []string{"z"}}))
	assert.Empty(t, names(x.Get("all the same")))
	assert.ElementsMatch(t, []string{"y", "z"}, slices.Collect(x.Values()))
}

func TestIndexedPods(t *testing.T) {
	pods := newPods()
	byNode, err := AddIndex(pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	require.NoError(t, err)
	p := pod("n", "a", "u", "1")
	p.Spec.NodeName = "node-1"
	require.NoError(t, pods.Add(p))
	for _, got := range byNode.Get("node-1") {
		assert.Same(t, p, got)
	}
	assert.Empty(t, names(byNode.Get("node-2")))
}
