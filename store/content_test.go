package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// These tests hold store-S9.

func onNode(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

// readFrom is a write of an object that was read from bytes with a hash.
func readFrom(hash uint64, p *corev1.Pod) Write[*corev1.Pod] {
	return Write[*corev1.Pod]{Type: Modification, Object: p, Hash: hash}
}

func TestContentDecidesWhatAChangeIs(t *testing.T) {
	for name, tc := range map[string]struct {
		held, write Write[*corev1.Pod]
		want        []string
		hash        uint64 // that the cache has then
	}{
		"the same bytes":                  {readFrom(7, pod("", "a", "u", "5")), readFrom(7, pod("", "a", "u", "5")), []string{}, 7},
		"other bytes of the same content": {readFrom(7, pod("", "a", "u", "5")), readFrom(8, pod("", "a", "u", "5")), []string{}, 8},
		"other content":                   {readFrom(7, pod("", "a", "u", "5")), readFrom(8, onNode(pod("", "a", "u", "5"), "n")), []string{"Modification a 5->5"}, 8},
		"the same content, no bytes":      {readFrom(7, pod("", "a", "u", "5")), readFrom(0, pod("", "a", "u", "5")), []string{}, 7},
		"other content, no bytes":         {readFrom(7, pod("", "a", "u", "5")), readFrom(0, onNode(pod("", "a", "u", "5"), "n")), []string{"Modification a 5->5"}, 0},
		"bytes where there were none":     {readFrom(0, pod("", "a", "u", "5")), readFrom(7, pod("", "a", "u", "5")), []string{}, 7},
		"another version":                 {readFrom(7, pod("", "a", "u", "5")), readFrom(7, pod("", "a", "u", "6")), []string{"Modification a 5->6"}, 7},
		"no version, the same content":    {readFrom(0, pod("", "a", "u", "")), readFrom(0, pod("", "a", "u", "")), []string{}, 0},
		"no version, other content":       {readFrom(7, pod("", "a", "u", "")), readFrom(7, onNode(pod("", "a", "u", ""), "n")), []string{"Modification a ->"}, 0},
		"no UID, the same content":        {readFrom(0, pod("", "a", "", "5")), readFrom(0, pod("", "a", "", "5")), []string{}, 0},
		"no UID, other content":           {readFrom(7, pod("", "a", "", "5")), readFrom(7, onNode(pod("", "a", "", "5"), "n")), []string{"Modification a 5->5"}, 0},
	} {
		for _, replace := range []bool{false, true} {
			c := newPods()
			require.NoError(t, c.Replace(nil, "1"))
			require.NoError(t, apply(c, tc.held))
			before, _ := c.Get(Key{Name: "a"})
			rec := follow(c)
			b, _ := begin[*corev1.Pod](c, replace)
			require.NoError(t, b.Write(tc.write))
			require.NoError(t, b.Commit("9"))
			assert.Equal(t, tc.want, rec.changes(), "%s, list %t", name, replace)
			assert.Equal(t, "9", c.ResourceVersion(), name)
			after, _ := c.Get(Key{Name: "a"})
			assert.Equal(t, len(tc.want) == 0, before == after, "%s: an unchanged object keeps its pointer", name)
			assert.Equal(t, tc.hash != 0, c.Has(Key{Name: "a"}, VersionOf(after), tc.hash), name)
			checkCache(t, c)
		}
	}
}

// Each write of a batch follows the one before it, also where the first brings the version that the
// second repeats.
func TestBatchComparesEachWriteWithTheOneBefore(t *testing.T) {
	v5, v6 := pod("", "a", "u", "5"), pod("", "a", "u", "6")
	for name, tc := range map[string]struct {
		writes []Write[*corev1.Pod]
		want   []string
	}{
		"repeated":         {[]Write[*corev1.Pod]{adding(v6), adding(v6.DeepCopy())}, []string{"Modification a 5->6"}},
		"shown again":      {[]Write[*corev1.Pod]{adding(v6), adding(onNode(v6.DeepCopy(), "n"))}, []string{"Modification a 5->6", "Modification a 6->6"}},
		"back":             {[]Write[*corev1.Pod]{adding(v6), adding(v5.DeepCopy())}, []string{"Modification a 5->6", "Modification a 6->5"}},
		"deleted, created": {[]Write[*corev1.Pod]{deleting(v6), adding(v5.DeepCopy())}, []string{"Deletion a 6", "Addition a 5"}},
		"held, changed":    {[]Write[*corev1.Pod]{adding(v5.DeepCopy()), adding(v6)}, []string{"Modification a 5->6"}},
	} {
		c := newPods()
		require.NoError(t, c.Replace([]*corev1.Pod{v5}, "5"))
		rec := follow(c)
		require.NoError(t, apply(c, tc.writes...))
		assert.Equal(t, tc.want, rec.changes(), name)
		assert.Empty(t, rec.illegal, name)
		checkCache(t, c)
	}
}

func TestIndexesFollowAnObjectThatChangesUnderItsVersion(t *testing.T) {
	c := newPods()
	byNode, err := AddIndex(c, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	require.NoError(t, err)
	require.NoError(t, c.Replace([]*corev1.Pod{onNode(pod("", "a", "u", "5"), "n1")}, "5"))
	require.NoError(t, c.Replace([]*corev1.Pod{onNode(pod("", "a", "u", "5"), "n2")}, "6"))
	assert.Empty(t, names(byNode.Get("n1")))
	assert.Equal(t, []string{"a"}, names(byNode.Get("n2")))
	checkCache(t, c)
}

// A rejected object that comes back as it is held does not hold back the version any more.
func TestRepeatedObjectEndsItsRejection(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u", "5")}, "5"))
	require.Error(t, apply(c, Write[*corev1.Pod]{Key: Key{Name: "a"}, Version: Version{"u", "6"}, Err: errNoName}))
	require.NoError(t, c.Bookmark("7"))
	require.Equal(t, "5", c.ResourceVersion())
	require.NoError(t, c.Update(pod("", "a", "u", "5")))
	assert.Empty(t, c.Rejected())
	require.NoError(t, c.Bookmark("8"))
	assert.Equal(t, "8", c.ResourceVersion())
}

type opaque struct{ at time.Time }

type untold struct {
	metav1.TypeMeta
	Size int
}

type wrapping struct{ *corev1.Pod }

type picky struct{ Name string }

func (p *picky) EqualContent(other *picky) bool {
	if p.Name == "bad" {
		panic("cannot compare")
	}
	return len(p.Name) == len(other.Name)
}

type listing struct {
	metav1.ObjectMeta `json:"metadata"`
	Shown             []string       `json:"shown"`
	Omitted           []string       `json:"omitted,omitempty"`
	Free              map[string]any `json:"free"`
}

// After a relist, the cache prints as the list does: a definition may have got the default [].
func TestEmptyListEqualsAMissingOneIfItPrintsAsOne(t *testing.T) {
	of := func(shown, omitted []string) *listing {
		return &listing{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "5"}, Shown: shown, Omitted: omitted}
	}
	assert.True(t, EqualContent(of(nil, nil), of(nil, []string{})))
	assert.True(t, EqualContent(of([]string{}, []string{}), of([]string{}, nil)))
	assert.False(t, EqualContent(of(nil, nil), of([]string{}, nil)), "null, and []")
	assert.False(t, EqualContent(of(nil, nil), of(nil, []string{"a"})))
	silent := of(nil, nil)
	silent.Free = map[string]any{"f": func() {}}
	assert.False(t, EqualContent(of(nil, nil), silent))

	c := New(ObjectKey[*listing])
	require.NoError(t, c.Replace([]*listing{of(nil, nil)}, "5"))
	require.NoError(t, c.Replace([]*listing{of([]string{}, nil)}, "6"))
	held, _ := c.Get(Key{Name: "a"})
	assert.NotNil(t, held.Shown)
}

func TestEqualContent(t *testing.T) {
	now := time.Now()
	kinded := func(kind string) *corev1.Pod {
		return &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: "v1"}}
	}
	untyped := func(kind string, size any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"size": size}}
		if kind != "" {
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind})
		}
		return u
	}
	assert.True(t, EqualContent(&corev1.Pod{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}), "empty is missing")
	assert.True(t, EqualContent(corev1.ResourceList{"cpu": resource.MustParse("1")}, corev1.ResourceList{"cpu": resource.MustParse("1000m")}))
	assert.True(t, EqualContent(&metav1.Time{Time: now}, &metav1.Time{Time: now.UTC()}))
	stated, bare := kinded("Pod"), &corev1.Pod{}
	assert.True(t, EqualContent(stated, bare), "a list omits the kind")
	assert.True(t, EqualContent(bare, stated))
	assert.Empty(t, bare.Kind, "objects are shared")
	assert.True(t, EqualContent(&untold{TypeMeta: stated.TypeMeta, Size: 3}, &untold{Size: 3}), "a type that cannot copy itself")
	assert.False(t, EqualContent(&untold{TypeMeta: stated.TypeMeta, Size: 3}, &untold{Size: 4}))
	assert.True(t, EqualContent(wrapping{bare}, wrapping{stated}), "a type around another one")
	assert.True(t, EqualContent(&wrapping{stated}, &wrapping{bare}))
	assert.False(t, EqualContent(wrapping{stated}, wrapping{onNode(&corev1.Pod{}, "n")}))
	assert.Empty(t, bare.Kind, "objects are shared")
	assert.False(t, EqualContent(stated, onNode(&corev1.Pod{}, "n")))
	assert.False(t, EqualContent(stated, kinded("Node")))
	assert.True(t, EqualContent(untyped("Thing", int64(3)), untyped("", int64(3))))
	assert.True(t, EqualContent(untyped("", int64(3)), untyped("Thing", int64(3))))
	assert.False(t, EqualContent(untyped("Thing", int64(3)), untyped("", int64(4))))
	type point struct {
		name string
		at   [2]int
	}
	assert.True(t, EqualContent(point{"a", [2]int{1, 2}}, point{"a", [2]int{1, 2}}))
	assert.False(t, EqualContent(point{"a", [2]int{1, 2}}, point{"a", [2]int{1, 3}}))
	assert.False(t, EqualContent(point{"a", [2]int{1, 2}}, point{"b", [2]int{1, 2}}))
	assert.True(t, EqualContent[any](3, 3))
	assert.False(t, EqualContent[any](3, "3"))
	assert.True(t, EqualContent(struct{ At *point }{&point{"a", [2]int{1, 2}}}, struct{ At *point }{&point{"a", [2]int{1, 2}}}), "pointers are followed")
	assert.True(t, EqualContent(resource.MustParse("1"), resource.MustParse("1000m")))
	assert.True(t, EqualContent(opaque{now}, opaque{now}), "fields that are not exported are compared")
	assert.False(t, EqualContent(opaque{now}, opaque{now.Add(1)}))
	assert.True(t, EqualContent(&picky{"ab"}, &picky{"cd"}), "it compares itself")
	assert.False(t, EqualContent(&picky{"ab"}, &picky{"c"}))
	assert.False(t, EqualContent(&picky{"bad"}, &picky{"bad"}), "what cannot be compared may have changed")
	assert.False(t, EqualContent(func() {}, func() {}))
	assert.True(t, EqualContent[any](nil, nil))
	assert.False(t, EqualContent[any](nil, stated))
	assert.True(t, EqualContent("a", "a"))
}
