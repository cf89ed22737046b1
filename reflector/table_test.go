package reflector

import (
	"testing"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
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
		assert.True(t, source.IsTable(table), "%T", table)
	}
	for _, other := range []any{&corev1.Pod{}, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "example.com/v1"}}, (*metav1.Table)(nil), nil, 1} {
		assert.False(t, source.IsTable(other), "%T", other)
	}

	_, err := source.NewListType[*unstructured.Unstructured, *unstructured.UnstructuredList]().Page(&unstructured.UnstructuredList{Object: loose.Object})
	assert.ErrorIs(t, err, ErrTable)

	r := &run[*unstructured.Unstructured]{KubernetesResourceReflector: New(client.Dynamic(nil), nil)}
	assert.ErrorIs(t, r.take(source.ReadEvent[*unstructured.Unstructured](watch.Event{Type: watch.Added, Object: loose})).Err, ErrTable)
}
