package clientgo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// letters indexes a ConfigMap by the letters of its word. Repeated ones come more than once.
func letters(object any) ([]string, error) {
	c, ok := object.(*configMap)
	if !ok {
		return nil, errors.New("no ConfigMap")
	}
	var all []string
	for _, letter := range c.Data["word"] {
		all = append(all, string(letter))
	}
	return all, nil
}

func in(namespace, name string, word ...string) *configMap {
	c := stored(name, "uid-"+namespace+name, "1", word...)
	c.Namespace = namespace
	return c
}

// filled returns an Indexer of a cache of a few objects.
func filled(t *testing.T) (*Indexer[*configMap], *store.Cache[*configMap]) {
	t.Helper()
	c := store.New(store.ObjectKey[*configMap])
	x := AsIndexer(c)
	require.NoError(t, x.AddIndexers(cache.Indexers{"letters": letters}))
	require.NoError(t, x.Replace([]any{in("west", "a", "xyy"), in("east", "a", "yz"), in("", "free", "x")}, "10"))
	return x, c
}

func names(objects []any) []string {
	list := []string{}
	for _, object := range objects {
		key, _ := cache.MetaNamespaceKeyFunc(object)
		list = append(list, key)
	}
	return list
}

func TestIndexerReads(t *testing.T) {
	x, c := filled(t)
	all := []string{"free", "east/a", "west/a"}
	assert.Equal(t, all, names(x.List()))
	assert.Equal(t, all, x.ListKeys())
	assert.Equal(t, "10", x.LastStoreSyncResourceVersion())

	held, _ := c.Get(store.Key{Namespace: "west", Name: "a"})
	for what, object := range map[string]any{
		"an object":          in("west", "a"),
		"metadata":           &metav1.ObjectMeta{Namespace: "west", Name: "a"},
		"a key":              cache.ExplicitKey("west/a"),
		"a lost final state": cache.DeletedFinalStateUnknown{Key: "west/a"},
	} {
		got, ok, err := x.Get(object)
		require.NoError(t, err, what)
		assert.True(t, ok, what)
		assert.Same(t, held, got, what)
		got, ok, err = AsReadOnlyIndexer(&c.View).Get(object)
		require.NoError(t, err, what)
		assert.True(t, ok, what)
		assert.Same(t, held, got, what)
	}
	got, ok, err := x.Get(in("west", "b"))
	assert.NoError(t, err)
	assert.False(t, ok)
	assert.Nil(t, got, "not a nil of some type")
	got, ok, err = x.GetByKey("west/b")
	assert.NoError(t, err)
	assert.False(t, ok)
	assert.Nil(t, got)

	for _, object := range []any{"no object", (*configMap)(nil)} {
		_, _, err = x.Get(object)
		_, isKeyError := errors.AsType[cache.KeyError](err)
		assert.True(t, isKeyError, "%v", err)
	}
}

func TestKeysThatAreNotOfTheUsualForm(t *testing.T) {
	c := store.New(func(k store.Key) (store.Key, error) { return k, nil })
	x := AsIndexer(c)
	keys := []store.Key{{Name: "a"}, {Namespace: "n", Name: "a"}, {Name: "a|b"}, {Name: "n/a/b"}, {Cluster: "c", Name: "a"}, {Cluster: "c", Namespace: "n", Name: "a"}, {Cluster: "c", Name: "d/e/f"}}
	for _, key := range keys {
		require.NoError(t, c.Add(key))
	}
	for _, key := range keys {
		got, ok, err := x.GetByKey(key.String())
		require.NoError(t, err)
		assert.True(t, ok, "%v", key)
		assert.Equal(t, key, got)
	}
	for _, none := range []string{"", "/", "|", "n/", "/a/", "c|", "d|a", "c|x/a"} {
		_, ok, _ := x.GetByKey(none)
		assert.False(t, ok, "%q", none)
	}
	for _, key := range keys {
		require.NoError(t, x.Delete(cache.DeletedFinalStateUnknown{Key: key.String()}))
		_, ok := c.Get(key)
		assert.False(t, ok, "%v", key)
	}
}

func TestIndexerFindsByValue(t *testing.T) {
	x, _ := filled(t)
	byIndex := func(index, value string) []string {
		objects, err := x.ByIndex(index, value)
		require.NoError(t, err)
		keys, err := x.IndexKeys(index, value)
		require.NoError(t, err)
		assert.Equal(t, keys, names(objects))
		return keys
	}
	assert.Equal(t, []string{"free", "west/a"}, byIndex("letters", "x"))
	assert.Equal(t, []string{"east/a", "west/a"}, byIndex("letters", "y"), "once each")
	assert.Empty(t, byIndex("letters", "q"))
	assert.Equal(t, []string{"west/a"}, byIndex(cache.NamespaceIndex, "west"))
	assert.Equal(t, []string{"free"}, byIndex(cache.NamespaceIndex, ""))

	found, err := x.Index("letters", in("any", "other", "xz"))
	require.NoError(t, err)
	assert.Equal(t, []string{"free", "east/a", "west/a"}, names(found))
	found, err = x.Index(cache.NamespaceIndex, &metav1.ObjectMeta{Namespace: "east"})
	require.NoError(t, err)
	assert.Equal(t, []string{"east/a"}, names(found))

	assert.ElementsMatch(t, []string{"x", "y", "z"}, x.ListIndexFuncValues("letters"))
	assert.ElementsMatch(t, []string{"", "east", "west"}, x.ListIndexFuncValues(cache.NamespaceIndex))
	assert.Empty(t, x.ListIndexFuncValues("none"))
	assert.ElementsMatch(t, []string{"letters", cache.NamespaceIndex}, slices.Collect(maps.Keys(x.GetIndexers())))
	clear(x.GetIndexers())
	assert.Len(t, x.GetIndexers(), 2, "the map is a copy")

	for what, err := range map[string]error{
		"Index":     func() error { _, err := x.Index("none", in("a", "b")); return err }(),
		"IndexKeys": func() error { _, err := x.IndexKeys("none", "x"); return err }(),
		"ByIndex":   func() error { _, err := x.ByIndex("none", "x"); return err }(),
	} {
		assert.ErrorIs(t, err, ErrNoIndex, what)
	}
	_, err = x.Index("letters", "no object")
	assert.ErrorContains(t, err, `index "letters"`)
}

// TestListOfANamespaceCopiesOnce covers what generated listers do for each list of a namespace: they ask by an object that has only a namespace.
func TestListOfANamespaceCopiesOnce(t *testing.T) {
	x, _ := filled(t)
	for i := range 100 {
		require.NoError(t, x.Add(in("west", fmt.Sprint("b", i))))
	}
	west := &metav1.ObjectMeta{Namespace: "west"}
	byValue := testing.AllocsPerRun(100, func() { _, _ = x.ByIndex(cache.NamespaceIndex, "west") })
	byObject := testing.AllocsPerRun(100, func() { _, _ = x.Index(cache.NamespaceIndex, west) })
	assert.LessOrEqual(t, byObject, byValue+2, "but for the values that the index function returns")
	found, err := x.Index(cache.NamespaceIndex, west)
	require.NoError(t, err)
	keys, err := x.IndexKeys(cache.NamespaceIndex, "west")
	require.NoError(t, err)
	assert.Len(t, keys, 101)
	assert.Equal(t, keys, names(found))
}

func TestIndexersAreAddedAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "xy"), named("b", "y"))
		s := NewTyped(configMaps(t, server))
		require.NoError(t, s.AddIndexers(cache.Indexers{"before": letters}))
		run(t, s)
		synctest.Wait()
		find := func(index, value string) []string {
			objects, err := s.GetIndexer().ByIndex(index, value)
			require.NoError(t, err)
			return names(objects)
		}
		assert.Equal(t, []string{"default/a"}, find("before", "x"))
		create(t, server, named("c", "x"))
		synctest.Wait()
		assert.Equal(t, []string{"default/a", "default/c"}, find("before", "x"))
		require.NoError(t, s.AddIndexers(cache.Indexers{"after": letters}))
		assert.Equal(t, []string{"default/a", "default/c"}, find("after", "x"))
		require.NoError(t, server.Update(named("a", "y")))
		synctest.Wait()
		for _, index := range []string{"before", "after"} {
			assert.Equal(t, []string{"default/c"}, find(index, "x"))
			assert.Equal(t, []string{"default/a", "default/b"}, find(index, "y"))
			assert.ElementsMatch(t, []string{"x", "y"}, s.GetIndexer().ListIndexFuncValues(index))
		}
	})
}

func TestIndexersThatCannotBeAdded(t *testing.T) {
	x, c := filled(t)
	none := func(any) ([]string, error) { return nil, nil }
	assert.ErrorContains(t, x.AddIndexers(cache.Indexers{"letters": none, "new": none}), `index "letters" was added before`)
	assert.NotContains(t, x.GetIndexers(), "new", "nothing is added beside a name that is taken")
	assert.ErrorIs(t, x.AddIndexers(cache.Indexers{"a": none, "nil": nil}), errNoIndexFunc)
	assert.NotContains(t, x.GetIndexers(), "a", "nothing is added beside a missing function")
	assert.ErrorContains(t, AsIndexer(c).AddIndexers(cache.Indexers{"letters": none}), `index "letters"`, "through another Indexer")

	broken := errors.New("broken")
	err := x.AddIndexers(cache.Indexers{"fails": func(any) ([]string, error) { return nil, broken }})
	assert.ErrorIs(t, err, store.ErrPanic)
	assert.ErrorContains(t, err, "broken")
	assert.NotContains(t, x.GetIndexers(), "fails")

	require.NoError(t, x.AddIndexers(cache.Indexers{"picky": func(object any) ([]string, error) {
		if object.(*configMap).Name == "bad" {
			return nil, broken
		}
		return []string{"good"}, nil
	}}))
	assert.ErrorContains(t, x.Add(in("west", "bad")), "broken")
	_, held, _ := x.GetByKey("west/bad")
	assert.False(t, held)
	require.NoError(t, x.Add(in("west", "good")))
}

func TestIndexByNamespaceMayBeAddedOnce(t *testing.T) {
	x, _ := filled(t)
	usual := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	require.NoError(t, x.AddIndexers(usual))
	keys, err := x.IndexKeys(cache.NamespaceIndex, "west")
	require.NoError(t, err)
	assert.Equal(t, []string{"west/a"}, keys)
	assert.ErrorContains(t, x.AddIndexers(usual), "was added before")
	assert.Nil(t, x.indexes[cache.NamespaceIndex].found, "nothing is kept for it")

	x, _ = filled(t)
	require.NoError(t, x.AddIndexers(cache.Indexers{cache.NamespaceIndex: letters}))
	keys, err = x.IndexKeys(cache.NamespaceIndex, "z")
	require.NoError(t, err)
	assert.Equal(t, []string{"east/a"}, keys, "somebody means something else by the name")
}

func TestNamespacesOfSeveralClusters(t *testing.T) {
	c := store.New(func(k store.Key) (store.Key, error) { return k, nil })
	x := AsIndexer(c)
	for _, key := range []store.Key{{Cluster: "east", Namespace: "a", Name: "x"}, {Cluster: "east", Namespace: "b", Name: "x"}, {Cluster: "west", Namespace: "a", Name: "y"}} {
		require.NoError(t, c.Add(key))
	}
	assert.Equal(t, []string{"a", "b"}, x.ListIndexFuncValues(cache.NamespaceIndex))
	keys, err := x.IndexKeys(cache.NamespaceIndex, "a")
	require.NoError(t, err)
	assert.Equal(t, []string{"east|a/x", "west|a/y"}, keys)
}

func TestIndexerWrites(t *testing.T) {
	x, c := filled(t)
	require.NoError(t, x.Add(in("west", "b", "x")))
	require.NoError(t, x.Update(in("west", "a", "q")))
	require.NoError(t, x.Delete(in("east", "a")))
	require.NoError(t, x.Delete(cache.ExplicitKey("free")))
	require.NoError(t, x.Delete(cache.ExplicitKey("gone")))
	require.NoError(t, x.Resync())
	assert.Equal(t, []string{"west/a", "west/b"}, x.ListKeys())
	changed, _ := c.Get(store.Key{Namespace: "west", Name: "a"})
	assert.Equal(t, "q", changed.Data["word"])
	x.Bookmark("20")
	assert.Equal(t, "20", x.LastStoreSyncResourceVersion())

	other := &corev1.Secret{}
	for what, err := range map[string]error{
		"Add": x.Add(other), "Update": x.Update(other), "Delete": x.Delete(other), "Replace": x.Replace([]any{in("a", "a"), other}, "30"),
		"nil": x.Add(nil),
	} {
		_, ok := errors.AsType[*TypeError](err)
		assert.True(t, ok, "%s: %v", what, err)
	}
	assert.Equal(t, []string{"west/a", "west/b"}, x.ListKeys())
	assert.ErrorIs(t, x.Add(&configMap{}), store.ErrBadKey)

	readOnly := AsReadOnlyIndexer(&c.View)
	for what, err := range map[string]error{
		"Add": readOnly.Add(in("a", "a")), "Update": readOnly.Update(in("a", "a")), "Delete": readOnly.Delete(in("west", "a")),
		"Delete by key": readOnly.Delete(cache.ExplicitKey("west/a")), "Replace": readOnly.Replace(nil, "40"),
	} {
		assert.ErrorIs(t, err, ErrReadOnly, what)
	}
	readOnly.Bookmark("40")
	assert.Equal(t, "20", c.ResourceVersion())
	assert.Equal(t, 2, c.Len())
}

func TestGeneratedListersRead(t *testing.T) {
	x, _ := filled(t)
	lister := listers.NewConfigMapLister(x)
	all, err := lister.List(labels.Everything())
	require.NoError(t, err)
	assert.Len(t, all, 3)
	west, err := lister.ConfigMaps("west").List(labels.Everything())
	require.NoError(t, err)
	require.Len(t, west, 1)
	one, err := lister.ConfigMaps("west").Get("a")
	require.NoError(t, err)
	assert.Same(t, west[0], one)
	_, err = lister.ConfigMaps("west").Get("b")
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestCacheOfWhatHasNoMetadata(t *testing.T) {
	c := store.New(func(text string) (store.Key, error) { return store.Key{Namespace: "n", Name: text}, nil })
	x := AsIndexer(c)
	require.NoError(t, x.Add("one"))
	got, ok, err := x.Get("one")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "one", got)
	keys, err := x.IndexKeys(cache.NamespaceIndex, "n")
	require.NoError(t, err)
	assert.Equal(t, []string{"n/one"}, keys)
	_, err = x.Index(cache.NamespaceIndex, "one")
	assert.Error(t, err, "the function of client-go wants metadata")
}

func TestCacheOfAnInformerIsWritableUntilTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		server := reflectortest.Start(t)
		create(t, server, named("a", "listed"), named("c", "listed"))
		s := NewTyped(configMaps(t, server))
		x := s.GetIndexer()
		require.NoError(t, x.Add(named("a", "seeded")))
		require.NoError(t, x.Add(named("b", "seeded")))
		require.NoError(t, x.Update(named("b", "seeded again")))
		require.NoError(t, x.Add(named("d", "seeded")))
		require.NoError(t, x.Delete(named("d")))
		x.Bookmark("9")
		assert.Equal(t, []string{"default/a", "default/b"}, x.ListKeys())
		assert.Empty(t, s.LastSyncResourceVersion(), "the informer has to list")

		var d diary
		handle, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		assert.False(t, s.HasSynced() || handle.HasSynced())
		run(t, s)
		synctest.Wait()
		assert.True(t, s.HasSynced() && handle.HasSynced())
		assert.Equal(t, []string{"default/a", "default/c"}, x.ListKeys(), "the first list replaces what was seeded")
		a, _, err := x.GetByKey("default/a")
		require.NoError(t, err)
		assert.Equal(t, "a:listed", short(a))
		assert.ElementsMatch(t, []string{
			"initial a:seeded", "update a:seeded>a:listed", "initial b:seeded again", "missing default/b b:seeded again", "initial c:listed",
		}, d.read(), "handlers see what was seeded")

		assert.Empty(t, reported.take())
		for range 2 {
			assert.ErrorIs(t, x.Add(named("e")), ErrReadOnly)
			assert.ErrorIs(t, x.Update(named("e")), ErrReadOnly)
			assert.ErrorIs(t, x.Delete(named("a")), ErrReadOnly)
			assert.ErrorIs(t, x.Replace(nil, ""), ErrReadOnly)
		}
		x.Bookmark("9")
		assert.Equal(t, []string{"default/a", "default/c"}, x.ListKeys())
		errs := reported.take()
		require.Len(t, errs, 1, "once is enough")
		assert.ErrorIs(t, errs[0], ErrReadOnly)
	})
}

func TestReplaceBeforeTheStartStillLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("c"))
		s := NewTyped(configMaps(t, server))
		require.NoError(t, s.GetStore().Add(named("a")))
		require.NoError(t, s.GetStore().Replace([]any{named("b")}, "5"))
		assert.Equal(t, []string{"default/b"}, s.GetStore().ListKeys())
		run(t, s)
		synctest.Wait()
		assert.Equal(t, []string{"default/c"}, s.GetStore().ListKeys())
	})
}

func TestInformerThatWasMadeElsewhereIsReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported.take()
		s := AsSharedIndexInformer(informer.New(configMaps(t, reflectortest.Start(t))))
		assert.ErrorIs(t, s.GetIndexer().Add(named("a")), ErrReadOnly)
		assert.Len(t, reported.take(), 1)
	})
}
