package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDifferencesOfTwoVersions(t *testing.T) {
	before := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1", Labels: map[string]string{"old": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one"}}},
	}
	after := before.DeepCopy()
	after.ResourceVersion, after.Labels, after.ManagedFields[0].Manager = "2", nil, "n"
	after.Spec.Containers[0].Image = "two"
	after.Spec.Containers = append(after.Spec.Containers, corev1.Container{Name: "d"})
	fields, ok := differences(before, after, nil)
	require.True(t, ok)
	assert.Equal(t, []FieldChange{
		{"metadata.labels", `{"old":"x"}`, ""},
		{"metadata.resourceVersion", `"1"`, `"2"`},
		{"spec.containers[0].image", `"one"`, `"two"`},
		{"spec.containers[1]", "", `{"name":"d","resources":{}}`},
	}, fields)

	fields, ok = differences(before, before, nil)
	assert.True(t, ok)
	assert.Empty(t, fields)
	_, ok = differences(1, 2, nil)
	assert.False(t, ok)
}

func TestDifferencesAreMaskedAndBounded(t *testing.T) {
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: value}, Data: map[string][]byte{"p": []byte(value)}}
	}
	fields, ok := differences(secret("hush"), secret("hushed"), nil)
	require.True(t, ok)
	assert.Equal(t, []FieldChange{{"metadata.name", `"hush"`, `"hushed"`}}, fields)

	thing := func(text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "Thing", "spec": map[string]any{"text": text, "token": text}}}
	}
	fields, ok = differences(thing(""), thing(strings.Repeat("é", 1000)), [][]string{{"spec", "token"}})
	require.True(t, ok)
	require.Len(t, fields, 1)
	assert.Equal(t, "spec.text", fields[0].Path)
	assert.Len(t, []rune(fields[0].After), shownValue+1)
}
