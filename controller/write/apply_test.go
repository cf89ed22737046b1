package write

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// applied is a client that answers with one object.
type applied struct{ answer *corev1.ConfigMap }

func (a applied) Apply(context.Context, string, metav1.ApplyOptions) (*corev1.ConfigMap, error) {
	return a.answer, nil
}

// The API server in memory has no server-side apply. client-go's fake has, with the
// managed fields that Extract reads.
func TestApplyChangedAsksIfSomethingChanges(t *testing.T) {
	clientset := fake.NewClientset()
	applies := 0
	clientset.PrependReactor("patch", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		applies++
		return false, nil, nil
	})
	client := clientset.CoreV1().ConfigMaps("ns")
	want := func(data map[string]string) *applycore.ConfigMapApplyConfiguration {
		return applycore.ConfigMap("c", "ns").WithLabels(map[string]string{"l": "x"}).WithData(data)
	}
	held, err := Apply(t.Context(), client, want(map[string]string{"a": "1", "b": "2"}), "me")
	require.NoError(t, err)
	assert.Equal(t, 1, applies)
	// What somebody else has is not the question.
	_, err = Apply(t.Context(), client, applycore.ConfigMap("c", "ns").WithData(map[string]string{"other": "3"}), "other")
	require.NoError(t, err)
	held, err = client.Get(t.Context(), held.Name, metav1.GetOptions{})
	require.NoError(t, err)
	applies = 0

	same, err := ApplyChanged(t.Context(), client, held, applycore.ExtractConfigMap, want(map[string]string{"a": "1", "b": "2"}), "me")
	require.NoError(t, err)
	assert.Same(t, held, same)
	assert.Zero(t, applies)

	got, err := ApplyChanged(t.Context(), client, held, applycore.ExtractConfigMap, want(map[string]string{"a": "1"}), "me")
	require.NoError(t, err)
	assert.Equal(t, 1, applies)
	assert.Equal(t, map[string]string{"a": "1", "other": "3"}, got.Data, "what is not wanted any more is gone")
}
