package source

import (
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func TestTablesAreRefused(t *testing.T) {
	kind := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1beta1", Kind: "Table"}
	loose := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "Table"}}
	for _, table := range []any{&metav1.Table{TypeMeta: kind}, &metav1.PartialObjectMetadata{TypeMeta: kind}, loose} {
		assert.True(t, IsTable(table), "%T", table)
	}
	for _, other := range []any{&corev1.Pod{}, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "example.com/v1"}}, (*metav1.Table)(nil), nil, 1} {
		assert.False(t, IsTable(other), "%T", other)
	}

	_, err := NewListType[*unstructured.Unstructured, *unstructured.UnstructuredList]().Page(&unstructured.UnstructuredList{Object: loose.Object})
	assert.ErrorIs(t, err, stream.ErrTable)

	assert.ErrorIs(t, ReadEvent[*unstructured.Unstructured](watch.Event{Type: watch.Added, Object: loose}).Err, stream.ErrTable)
}
