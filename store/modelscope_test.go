package store

import (
	"strconv"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// split makes partitions, if there are none.
func (m *model) split(t *rapid.T) {
	if len(m.doors) > 1 {
		t.Skip("split already")
	}
	m.doors = nil
	for _, namespace := range []string{"n1", "n2", "n3"} {
		p, err := m.c.Partition(Scope{Namespace: namespace})
		require.NoError(t, err)
		m.doors = append(m.doors, &door{p: p})
	}
}

// drop drops a partition and makes it anew.
func (m *model) drop(t *rapid.T) {
	if len(m.doors) == 1 {
		t.Skip("nothing to drop")
	}
	d := m.door(t)
	for key := range m.held {
		if d.p.scope.mayContain(key) {
			delete(m.held, key)
		}
	}
	require.NoError(t, m.c.Drop(*d.p.scope))
	require.ErrorIs(t, d.p.Bookmark("1"), errDropped)
	p, err := m.c.Partition(*d.p.scope)
	require.NoError(t, err)
	*d = door{p: p}
}

// dropSome drops a namespace of a cache without partitions.
func (m *model) dropSome(t *rapid.T) {
	if len(m.doors) > 1 {
		t.Skip("that is for drop")
	}
	d, scope := m.doors[0], Scope{Namespace: m.key(t).Namespace}
	some := false
	for _, key := range d.rejected.in(scope) {
		some = true
		delete(d.rejected, key)
	}
	for key := range m.held {
		if scope.mayContain(key) {
			some = true
			delete(m.held, key)
		}
	}
	if some {
		d.version, d.listed = "", false
	}
	err := m.c.Drop(scope)
	require.NoError(t, err)
	require.False(t, some && m.c.Snapshot().Synced())
}

// bypass writes the objects of a partition through the cache.
func (m *model) bypass(t *rapid.T) {
	if len(m.doors) == 1 {
		t.Skip("there is no other way")
	}
	key := m.key(t)
	p := pod(key.Namespace, key.Name, "u9", strconv.Itoa(m.serial))
	var batch writes[*corev1.Pod]
	batch.Add(p)
	batch.Delete(p)
	batch.DeleteKey(key)
	batch.Fail(Rejection{Key: key, Err: errNoName})
	err := batch.to(m.c)
	m.rejected(t, 4, err)
	require.ErrorIs(t, err, errOverlap)
	require.ErrorIs(t, m.c.Replace(nil, "1"), errOverlap)
	err = m.c.Drop(Scope{Namespace: "n4"})
	require.NoError(t, err)
}
