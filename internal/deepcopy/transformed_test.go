package deepcopy

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              "a",
			Labels:            map[string]string{"app": "web"},
			Annotations:       map[string]string{"config": "long", "team": "shop"},
			CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)),
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1("{}")}},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"disk": "ssd"},
			Containers: []corev1.Container{
				{Name: "app", Env: []corev1.EnvVar{{Name: "A", Value: "a"}}, Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{"cpu": resource.MustParse("1")},
				}},
				{Name: "proxy", Env: []corev1.EnvVar{{Name: "B", Value: "b"}}},
			},
		},
	}
}

func transformed[T any](t *testing.T, object T, edit func(T)) T {
	result, err := Transformed(object, func(object any) (any, error) {
		edit(object.(T))
		return object, nil
	})
	require.NoError(t, err)
	return result.(T)
}

func assertSameMap(t *testing.T, a, b any) {
	t.Helper()
	assert.Equal(t, reflect.ValueOf(a).Pointer(), reflect.ValueOf(b).Pointer())
}

func TestTransformedObjectSharesWhatIsEqual(t *testing.T) {
	object := newPod()
	result := transformed(t, object, func(p *corev1.Pod) {
		p.ManagedFields = nil
		delete(p.Annotations, "config")
		p.Spec.Containers[1].Env[0].Value = "c"
	})
	assert.Equal(t, newPod(), object, "the object is as it was")
	want := newPod()
	want.ManagedFields, want.Annotations, want.Spec.Containers[1].Env[0].Value = nil, map[string]string{"team": "shop"}, "c"
	assert.Equal(t, want, result)
	assertSameMap(t, object.Labels, result.Labels)
	assertSameMap(t, object.Spec.NodeSelector, result.Spec.NodeSelector)
	assert.Same(t, &object.Spec.Containers[0].Env[0], &result.Spec.Containers[0].Env[0], "also in a list with a change")
	assertSameMap(t, object.Spec.Containers[0].Resources.Limits, result.Spec.Containers[0].Resources.Limits)

	assert.Same(t, object, transformed(t, object, func(*corev1.Pod) {}), "a transform that does nothing costs no memory")
}

func TestTransformedUntypedObjectSharesWhatIsEqual(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"app": "web"}, "managedFields": []any{map[string]any{}}},
		"spec":     map[string]any{"list": []any{map[string]any{"a": int64(1)}}},
	}}
	result := transformed(t, object, func(u *unstructured.Unstructured) { u.SetManagedFields(nil) })
	assert.Contains(t, object.Object["metadata"], "managedFields")
	assert.NotContains(t, result.Object["metadata"], "managedFields")
	assertSameMap(t, object.Object["spec"], result.Object["spec"])
	assertSameMap(t, object.Object["metadata"].(map[string]any)["labels"], result.Object["metadata"].(map[string]any)["labels"])
}

// A transform may give the same parts to all objects, and return an object that it keeps.
func TestPartsOfATransformAreNotWrittenTo(t *testing.T) {
	affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	object := newPod()
	object.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAffinity: &corev1.PodAffinity{}}
	containers := newPod().Spec.Containers
	containers[0].Name = "other"
	result := transformed(t, object, func(p *corev1.Pod) { p.Spec.Affinity, p.Spec.Containers = affinity, containers })
	assert.Same(t, object.Spec.Affinity.NodeAffinity, result.Spec.Affinity.NodeAffinity)
	assert.NotSame(t, object.Spec.Affinity.NodeAffinity, affinity.NodeAffinity)
	assert.Nil(t, affinity.PodAffinity)
	assert.NotSame(t, &object.Spec.Containers[0].Env[0], &containers[0].Env[0])

	tolerations, labels := []corev1.Toleration{{Key: "all", TolerationSeconds: new(int64)}}, map[string]string{"all": "same"}
	object.Spec.Tolerations = []corev1.Toleration{{Key: "own"}}
	result = transformed(t, object, func(p *corev1.Pod) { p.Spec.Tolerations, p.Labels = tolerations, labels })
	assert.Same(t, &tolerations[0], &result.Spec.Tolerations[0], "what has nothing in common with the object stays one for all")
	assertSameMap(t, labels, result.Labels)
	assertSameMap(t, object.Spec.NodeSelector, result.Spec.NodeSelector)

	kept := newPod()
	kept.Name = "kept"
	returned, err := Transformed(object, func(any) (any, error) { return kept, nil })
	require.NoError(t, err)
	assert.Equal(t, kept, returned)
	assert.NotSame(t, &object.Spec.Containers[0].Env[0], &kept.Spec.Containers[0].Env[0])
}

func TestOtherResultsOfATransform(t *testing.T) {
	failed := errors.New("failed")
	for _, want := range []any{nil, (*corev1.Pod)(nil), &corev1.ConfigMap{}, "text", 1} {
		result, err := Transformed(newPod(), func(any) (any, error) { return want, nil })
		require.NoError(t, err)
		assert.Equal(t, want, result)
	}
	result, err := Transformed(newPod(), func(any) (any, error) { return newPod(), failed })
	assert.ErrorIs(t, err, failed)
	assert.Nil(t, result)
}

// nested has all kinds of fields.
type nested struct {
	Number   int
	Text     string
	Float    float64
	Bytes    []byte
	Any      any
	Pointer  *nested
	Structs  []nested
	Map      map[string]nested
	Pointers map[string]*nested
	Array    [2]*string
	Time     metav1.Time
	Quantity resource.Quantity
}

// TestResultIsWhatTheTransformReturned holds two random objects against each other, with nil and empty
// values, of which a transform may make one the other.
func TestResultIsWhatTheTransformReturned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object, want := randomValue(t, 3), randomValue(t, 3)
		before, expected := Of(object), Of(want)
		result, err := Transformed(&object, func(any) (any, error) { return &want, nil })
		require.NoError(t, err)
		require.Equal(t, &expected, result)
		require.Equal(t, expected, want)
		require.Equal(t, before, object)
		require.Equal(t, math.Signbit(expected.Float), math.Signbit(result.(*nested).Float))
	})
}

func randomValue(t *rapid.T, depth int) (n nested) {
	n.Number = rapid.IntRange(0, 1).Draw(t, "number")
	n.Text = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "text")
	n.Any = rapid.SampledFrom([]any{nil, "a", int64(1), 1.0, []any{}, []any{"a"}, []any{"b", nil}, map[string]any{}, map[string]any{"a": map[string]any{"b": "c"}}, []any(nil), map[string]any(nil)}).Draw(t, "any")
	n.Float = rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1}).Draw(t, "float")
	n.Bytes = rapid.SampledFrom([][]byte{nil, {}, {1}}).Draw(t, "bytes")
	n.Quantity = rapid.SampledFrom([]resource.Quantity{{}, resource.MustParse("1"), resource.MustParse("1000m"), resource.MustParse("123456789012345678901234567890")}).Draw(t, "quantity")
	n.Time = rapid.SampledFrom([]metav1.Time{{}, metav1.Unix(1, 0), metav1.Unix(1, 1)}).Draw(t, "time")
	n.Array[1] = rapid.SampledFrom([]*string{nil, new(string)}).Draw(t, "array")
	if depth == 0 {
		return n
	}
	if rapid.Bool().Draw(t, "pointer") {
		one := randomValue(t, depth-1)
		n.Pointer = &one
	}
	if rapid.Bool().Draw(t, "structs") {
		n.Structs = []nested{randomValue(t, depth-1), randomValue(t, depth-1)}[:rapid.IntRange(0, 2).Draw(t, "length")]
	}
	if rapid.Bool().Draw(t, "map") {
		n.Map = map[string]nested{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"): randomValue(t, depth-1)}
	}
	if rapid.Bool().Draw(t, "pointers") {
		one := randomValue(t, depth-1)
		n.Pointers = map[string]*nested{"a": &one, "b": nil}
	}
	return n
}
