package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKeyAsText(t *testing.T) {
	assert.Equal(t, "a", Key{Name: "a"}.String())
	assert.Equal(t, "n/a", Key{Namespace: "n", Name: "a"}.String())
	assert.Equal(t, "c|n/a", Key{"c", "n", "a"}.String())
	assert.Equal(t, "c|a", Key{Cluster: "c", Name: "a"}.String())
}

func TestKeysAreOrderedByClusterNamespaceName(t *testing.T) {
	ordered := []Key{{}, {Name: "a"}, {Name: "b"}, {Namespace: "a", Name: "z"}, {Namespace: "b"}, {Cluster: "c", Name: "a"}}
	for i, a := range ordered {
		for j, b := range ordered {
			got := a.Compare(b)
			assert.Equal(t, i < j, got < 0, "%v %v", a, b)
			assert.Equal(t, i == j, got == 0, "%v %v", a, b)
		}
	}
}

func TestObjectKeyOfBadObjects(t *testing.T) {
	var typedNil *corev1.Pod
	_, err := ObjectKey(typedNil)
	require.ErrorIs(t, err, errNilObject)
	assert.EqualError(t, err, "*v1.Pod: object has no usable key: it is nil")

	_, err = ObjectKey[metav1.Object](typedNil)
	require.ErrorIs(t, err, errNilObject, "in an interface")
	assert.EqualError(t, err, "v1.Object: object has no usable key: it is nil")
	_, err = ObjectKey[metav1.Object](nil)
	require.ErrorIs(t, err, errNilObject)
	key, err := ObjectKey[metav1.Object](pod("ns", "a", "", ""))
	require.NoError(t, err)
	assert.Equal(t, Key{Namespace: "ns", Name: "a"}, key)

	type wrapped struct{ *corev1.Pod }
	_, err = ObjectKey(wrapped{})
	require.ErrorIs(t, err, errNilObject, "a value that has no object in it")

	_, err = ObjectKey(pod("ns", "", "", ""))
	assert.ErrorIs(t, err, errNoName)
	assert.ErrorIs(t, err, ErrBadKey)
	assert.EqualError(t, err, `*v1.Pod in namespace "ns": object has no usable key: its name is empty`)
}

func keyA() Key { return Key{Namespace: "n", Name: "a"} }

func TestVersionToldBesideAnObjectCounts(t *testing.T) {
	c := New(slimKey)
	require.NoError(t, c.Replace(nil, "1"))
	require.NoError(t, one(c, Write[*slim]{Type: Addition, Object: &slim{"n", "a", ""}, Version: Version{"u1", "2"}, Hash: 7}))
	assert.True(t, c.Has(keyA(), Version{"u1", "2"}, 7))
	assert.Equal(t, "2", c.ResourceVersion())

	held, _ := c.Get(keyA())
	given := list[*slim]{
		Objects:         []*slim{{"n", "a", ""}, {"n", "b", ""}, {"n", "c", ""}},
		Told:            []Write[*slim]{{Version: Version{"u1", "2"}}, {Key: Key{Namespace: "n", Name: "b"}, Version: Version{"u2", "3"}, Hash: 8}},
		ResourceVersion: "3",
	}
	require.NoError(t, given.to(c))
	again, _ := c.Get(keyA())
	assert.Same(t, held, again, "it is known to be unchanged")
	assert.True(t, c.Has(Key{Namespace: "n", Name: "b"}, Version{"u2", "3"}, 8))
	assert.Equal(t, []string{"n/a", "n/b", "n/c"}, names(c.All()), "of the last one nothing is told")

	var heard collector[*slim]
	c.Follow(&heard)
	require.NoError(t, one(c, Write[*slim]{Type: Deletion, Key: keyA(), Version: Version{ResourceVersion: "4"}}))
	assert.Equal(t, "4", c.ResourceVersion())
	given.Told[1].Version.UID = "u9"
	require.NoError(t, given.to(c))
	require.Len(t, heard.changes, 4, "of the last one, whose version nobody knows, only the content counts")
	assert.Equal(t, Deletion, heard.changes[2].Type, "another UID is another object")
	assert.Equal(t, Version{"u2", "3"}, heard.changes[2].Version)
	assert.False(t, heard.changes[2].FinalStateKnown)
}

func TestVersionToldBesideAnObjectIsStrongerThanItsOwn(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	w := Write[*corev1.Pod]{Type: Addition, Object: pod("n", "a", "u1", "2"), Version: Version{"u1", "3"}, Hash: 7}
	require.NoError(t, one(c, w))
	assert.Equal(t, "3", c.ResourceVersion())
	assert.True(t, c.Has(keyA(), Version{"u1", "3"}, 7))
}

func TestVersionToldBesideAnObjectThatSaysItTakesNoSpace(t *testing.T) {
	c := newPods()
	w := Write[*corev1.Pod]{Type: Addition, Object: pod("n", "a", "u1", "2"), Version: Version{"u1", "2"}}
	require.NoError(t, one(c, w))
	assert.Nil(t, c.table.entry(keyA()).version)
}

func TestKeyToldBesideAnObjectMustBeItsKey(t *testing.T) {
	other := Key{Namespace: "n", Name: "other"}
	c := New(slimKey)
	require.NoError(t, c.Replace(nil, "1"))
	require.NoError(t, one(c, Write[*slim]{Type: Addition, Object: &slim{"n", "a", ""}, Key: keyA()}))

	err := one(c, Write[*slim]{Type: Modification, Object: &slim{"n", "a", ""}, Key: other})
	require.ErrorIs(t, err, ErrBadKey)
	assert.ErrorContains(t, err, `"n/other": `)
	assert.ErrorContains(t, err, `it is "n/a", but the write says "n/other"`)
	require.NoError(t, c.DeleteKey(other))

	err = (list[*slim]{Objects: []*slim{{}}, Told: []Write[*slim]{{Key: keyA()}}, ResourceVersion: "2"}).to(c)
	require.ErrorIs(t, err, errNoName)
	assert.Equal(t, []string{"n/a"}, names(c.All()), "what is held under the key stays")
	assert.Equal(t, "1", c.ResourceVersion())

	gone := Write[*slim]{Type: Deletion, FinalStateKnown: true, Object: &slim{}, Key: keyA(), Version: Version{"u1", "3"}}
	require.NoError(t, one(c, gone), "the key is enough for a deletion")
	assert.Zero(t, c.Len())
	assert.Equal(t, "3", c.ResourceVersion())
}

func TestKeyToldToAPartitionMayLackTheCluster(t *testing.T) {
	c := New(slimKey)
	p, err := c.Partition(Scope{Cluster: "c1", Namespace: "n"})
	require.NoError(t, err)
	require.NoError(t, one(p, Write[*slim]{Type: Addition, Object: &slim{"n", "a", ""}, Key: keyA()}))
	assert.Equal(t, []string{"c1|n/a"}, names(c.All()))

	outside := Key{Namespace: "elsewhere", Name: "a"}
	for _, write := range []ChangeType{Addition, Deletion} {
		err = one(p, Write[*slim]{Type: write, FinalStateKnown: true, Object: &slim{"elsewhere", "a", ""}, Key: outside})
		require.ErrorIs(t, err, ErrOutOfScope, "%v", write)
	}
	require.Error(t, one(p, Write[*slim]{Type: Deletion, FinalStateKnown: true, Object: &slim{}, Key: outside}))
}

func TestKeyOfIsTheKeyInTheStore(t *testing.T) {
	c := newPods()
	key, err := c.KeyOf(pod("n", "a", "", ""))
	require.NoError(t, err)
	assert.Equal(t, keyA(), key)
	_, err = c.KeyOf(nil)
	require.ErrorIs(t, err, errNilObject)

	p, err := c.Partition(Scope{Cluster: "c1", Namespace: "n"})
	require.NoError(t, err)
	key, err = p.KeyOf(pod("n", "a", "", ""))
	require.NoError(t, err)
	assert.Equal(t, Key{"c1", "n", "a"}, key)
	_, err = p.KeyOf(pod("m", "a", "", ""))
	require.ErrorIs(t, err, ErrOutOfScope)
}

// one makes one write.
func one[T any](to Store[T], w Write[T]) error { return (&writes[T]{all: []Write[T]{w}}).to(to) }

// slim is an object without versions.
type slim struct{ namespace, name, uid string }

func slimKey(s *slim) (Key, error) {
	if s.name == "" {
		return Key{}, errNoName
	}
	return Key{Namespace: s.namespace, Name: s.name}, nil
}

func TestTableFindsWhatWasPutAndForgetsEmptyNamespaces(t *testing.T) {
	table := New(func(int) (Key, error) { return Key{}, nil }).table
	keys := []Key{{"", "", "a"}, {"", "n", "a"}, {"", "n", "b"}, {"c", "n", "a"}, {"c", "", "a"}}
	for i, key := range keys {
		_, held := table.get(key)
		assert.False(t, held)
		table.remove(key)
		e := &entry[int]{header: *pivot(key), object: i}
		s := table.nsMap(key)
		if s == nil {
			s = table.add(e.space, make(map[string]slot[int]))
		}
		table.put(s, key, e)
		if i != 2 {
			assert.Same(t, e.space, table.nsMap(key).space)
		}
	}
	assert.Equal(t, len(keys), table.len)
	for i, key := range keys {
		object, held := table.get(key)
		require.True(t, held)
		assert.Equal(t, i, object)
	}
	assert.Same(t, table.nsMap(keys[1]), table.nsMap(keys[2]), "a namespace has one nsMap")

	table.put(table.nsMap(keys[1]), keys[1], &entry[int]{object: 9})
	assert.Equal(t, len(keys), table.len)
	object, _ := table.get(keys[1])
	assert.Equal(t, 9, object)
	for _, key := range keys {
		table.remove(key)
		_, held := table.get(key)
		assert.False(t, held)
	}
	assert.Zero(t, table.len)
	assert.Empty(t, table.home)
	assert.Empty(t, table.clusters)
}

func TestEntriesOfOldSpacesAreInOrderWithNewOnes(t *testing.T) {
	// A namespace that comes back has another space than entries from before,
	// which snapshots still hold.
	a := &header{space: &space{"", "n"}, name: "a"}
	b := &header{space: &space{"", "n"}, name: "b"}
	other := &header{space: &space{"c", ""}, name: "a"}
	assert.True(t, lessEntry(a, b))
	assert.False(t, lessEntry(b, a))
	assert.True(t, lessEntry(b, other))
	assert.False(t, lessEntry(other, b))
}
