package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold store-S9.

func TestLastWordOnAKeyOfAListingCounts(t *testing.T) {
	held := pod("", "a", "u1", "1")
	same := func() *corev1.Pod { return pod("", "a", "u1", "1") }
	changed := func(version string) *corev1.Pod { return pod("", "a", "u1", version) }
	bad := func() *corev1.Pod {
		p := pod("", "a", "u1", "9")
		p.Finalizers = []string{"poison"}
		return p
	}
	a := []Key{{Name: "a"}}
	lacking := []Rejection{{Key: a[0], Err: errUndecodable}}
	for name, tt := range map[string]struct {
		listing  list[*corev1.Pod]
		changes  []string
		rejected int
		whole    bool // nothing is lacking
	}{
		"unchanged, then changed":       {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{changed("2")}}, []string{"Modification a 1->2"}, 0, true},
		"unchanged, then the same":      {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{same()}}, nil, 0, true},
		"unchanged, then bad":           {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{bad()}}, nil, 1, false},
		"unchanged, then lacking":       {list[*corev1.Pod]{Unchanged: a, Failed: lacking}, nil, 1, false},
		"unchanged twice":               {list[*corev1.Pod]{Unchanged: []Key{a[0], a[0]}}, nil, 0, true},
		"changed, then changed":         {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), changed("3")}}, []string{"Modification a 1->3"}, 0, true},
		"changed, then the same":        {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), same()}}, nil, 0, true},
		"changed, the same, changed":    {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), same(), changed("3")}}, []string{"Modification a 1->3"}, 0, true},
		"changed, then bad":             {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), bad()}}, nil, 1, false},
		"changed, bad, changed":         {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2"), bad(), changed("3")}}, []string{"Modification a 1->3"}, 0, true},
		"bad, then changed":             {list[*corev1.Pod]{Objects: []*corev1.Pod{bad(), changed("2")}}, []string{"Modification a 1->2"}, 0, true},
		"bad, then the same":            {list[*corev1.Pod]{Objects: []*corev1.Pod{bad(), same()}}, nil, 0, true},
		"the same, then changed":        {list[*corev1.Pod]{Objects: []*corev1.Pod{same(), changed("2")}}, []string{"Modification a 1->2"}, 0, true},
		"the same, then bad":            {list[*corev1.Pod]{Objects: []*corev1.Pod{same(), bad()}}, nil, 1, false},
		"changed, then lacking":         {list[*corev1.Pod]{Objects: []*corev1.Pod{changed("2")}, Failed: lacking}, nil, 1, false},
		"bad, then bad":                 {list[*corev1.Pod]{Objects: []*corev1.Pod{bad(), bad()}}, nil, 1, false},
		"bad, then lacking":             {list[*corev1.Pod]{Objects: []*corev1.Pod{bad()}, Failed: lacking}, nil, 1, false},
		"unchanged, changed, lacking":   {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{changed("2")}, Failed: lacking}, nil, 1, false},
		"nothing":                       {list[*corev1.Pod]{}, []string{"Deletion a 1"}, 0, true},
		"unchanged, but another listed": {list[*corev1.Pod]{Unchanged: a, Objects: []*corev1.Pod{pod("", "b", "u2", "2")}}, []string{"Addition b 2"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPods()
			index, err := AddIndex(c, "tag", func(p *corev1.Pod) []string {
				if len(p.Finalizers) > 0 {
					panic("poison")
				}
				return []string{p.ResourceVersion}
			})
			require.NoError(t, err)
			require.NoError(t, c.Replace([]*corev1.Pod{held}, "1"))
			rec := follow(c)

			tt.listing.ResourceVersion = "10"
			err = tt.listing.to(c)

			if tt.rejected > 0 {
				var rejected *RejectedError
				require.ErrorAs(t, err, &rejected)
				assert.Len(t, rejected.Rejections, tt.rejected)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, append([]string{}, tt.changes...), rec.changes())
			want := "1"
			if tt.whole {
				want = "10"
			}
			assert.Equal(t, want, c.ResourceVersion())
			checkCache(t, c)
			checkIndex(t, index)
			if len(tt.changes) == 0 {
				got, _ := c.Get(a[0])
				assert.Same(t, held, got)
			}
		})
	}
}

func TestUnchangedObjectThatIsNotHeldIsLacking(t *testing.T) {
	c := newPods()
	require.NoError(t, c.Replace(nil, "1"))
	err := (list[*corev1.Pod]{Unchanged: []Key{{Name: "a"}}, Objects: []*corev1.Pod{pod("", "b", "u2", "2")}, ResourceVersion: "2"}).to(c)
	require.ErrorIs(t, err, ErrNotHeld)
	assert.ErrorContains(t, err, `"a"`)
	assert.Equal(t, []string{"b"}, names(c.All()))
	assert.Equal(t, "1", c.ResourceVersion(), "somebody has to fetch it")

	require.NoError(t, c.Add(pod("", "a", "u1", "2")))
	assert.Equal(t, "2", c.ResourceVersion())
	require.NoError(t, (list[*corev1.Pod]{Unchanged: []Key{{Name: "c"}}, Objects: []*corev1.Pod{pod("", "c", "u3", "3")}, ResourceVersion: "3"}).to(c))
	assert.Equal(t, "3", c.ResourceVersion(), "it was there after all")
}

func TestInitialIsTheFirstListAlsoIfSomeOfItIsBad(t *testing.T) {
	c := newPods()
	rec := follow(c)
	require.Error(t, c.Replace([]*corev1.Pod{nil, pod("", "a", "u1", "1")}, "1"))
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "a", "u1", "1")}, "2"))
	require.Len(t, rec.commits, 2)
	assert.True(t, rec.commits[0].Initial)
	assert.Empty(t, rec.commits[0].ResourceVersion)
	assert.False(t, rec.commits[1].Initial)
	assert.Equal(t, "2", rec.commits[1].ResourceVersion)
}
