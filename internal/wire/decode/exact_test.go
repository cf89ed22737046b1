package decode

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func withContainers(n int) []byte {
	pod := &corev1.Pod{}
	for i := range n {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("container-", i), Env: []corev1.EnvVar{{Name: fmt.Sprint("N", i)}}})
	}
	text, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	return text
}

func TestSlicesOfLargeElementsHaveNothingToSpare(t *testing.T) {
	for name, opts := range map[string][]Option{"sharing": nil, "plain": {WithoutInterning()}} {
		t.Run(name, func(t *testing.T) {
			codec, err := For[*corev1.Pod](opts...)
			require.NoError(t, err)
			d := codec.NewDecoder()
			var earlier []*corev1.Pod
			sizes := []int{3, 1, 5, 2, 100, 3, 5}
			for _, n := range sizes {
				pod, err := d.Decode(wire.JSON, withContainers(n))
				require.NoError(t, err)
				assert.Len(t, pod.Spec.Containers, n)
				assert.Equal(t, n, cap(pod.Spec.Containers), "capacity")
				earlier = append(earlier, pod)
			}
			for i, n := range sizes {
				var want corev1.Pod
				require.NoError(t, utiljson.Unmarshal(withContainers(n), &want))
				assert.Equal(t, &want, earlier[i], "later pods are in other memory")
			}
		})
	}
}

func TestSlicesThatAreUnusual(t *testing.T) {
	codec, err := For[*corev1.Pod]()
	require.NoError(t, err)
	d := codec.NewDecoder()
	good := withContainers(2)
	for _, text := range []string{
		`{"spec":{"containers":[]}}`,
		`{"spec":{"containers":null}}`,
		`{"spec":{"containers":[null,{"name":"a"},null]}}`,
		`{"spec":{"containers":[{"name":"a","image":"i"},{"name":"b","image":"j"}],"containers":[{"name":"c"}]}}`,
		`{"spec":{"containers":[{"name":"a","env":[{"name":"x","value":"y"}],"env":[{"name":"z"},{"value":"w"}]}]}}`,
		`{"spec":{"containers":[{"name":"a"},{"name":7}]}}`,
		`{"spec":{"containers":{"name":"a"}}}`,
		`{"spec":{"containers":[{"name":"a"},`,
	} {
		var want corev1.Pod
		wrong := utiljson.Unmarshal([]byte(text), &want)
		got, err := d.Decode(wire.JSON, []byte(text))
		assert.Equal(t, wrong == nil, err == nil, "%s: %v", text, err)
		if err == nil {
			assert.Equal(t, &want, got, text)
		}
		again, err := d.Decode(wire.JSON, good)
		require.NoError(t, err)
		assert.Equal(t, 2, cap(again.Spec.Containers))
		assert.Empty(t, again.Spec.Containers[0].Image, "nothing is left of %s", text)
	}
}

// nested has the same slice inside its elements.
type nested struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Conditions        []metav1.Condition      `json:"conditions"`
	Inner             *nested                 `json:"inner"`
	Parts             []corev1.Container      `json:"parts"`
	Own               map[string][]nestedPart `json:"own"`
}

type nestedPart struct {
	Parts []corev1.Container `json:"parts"`
}

func TestSlicesInOneAnother(t *testing.T) {
	codec, err := For[*nested]()
	require.NoError(t, err)
	d := codec.NewDecoder()
	text := []byte(`{"conditions":[{"type":"a"}],"inner":{"conditions":[{"type":"b"},{"type":"c"},{"type":"d"}],"parts":[{"name":"p"}]},"own":{"x":[{"parts":[{"name":"q"},{"name":"r"}]}]},"parts":[{"name":"s"}]}`)
	for range 3 {
		var want nested
		require.NoError(t, utiljson.Unmarshal(text, &want))
		got, err := d.Decode(wire.JSON, text)
		require.NoError(t, err)
		assert.Equal(t, &want, got)
		assert.Equal(t, 3, cap(got.Inner.Conditions))
	}
}
