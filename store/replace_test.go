package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// These tests hold store-S9.

func TestReplaceReportsRealChangesOnly(t *testing.T) {
	c := newPods()
	same := pod("", "same", "u1", "1")
	require.NoError(t, c.Replace([]*corev1.Pod{same, pod("", "changed", "u2", "2"), pod("", "gone", "u3", "3")}, "3"))
	rec := follow(c)
	require.NoError(t, c.Replace([]*corev1.Pod{pod("", "changed", "u2", "5"), pod("", "same", "u1", "1"), pod("", "new", "u4", "6")}, "6"))

	assert.Equal(t, []string{"Deletion gone 3", "Modification changed 2->5", "Addition new 6"}, rec.changes())
	got, _ := c.Get(Key{Name: "same"})
	assert.Same(t, same, got, "an unchanged object keeps its pointer")
}
