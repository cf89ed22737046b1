package reflectortest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// TestFirstApplyNamesEarlierWriters repeats the writes before the first apply, with their times.
func TestFirstApplyNamesEarlierWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("ns")
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Finalizers: []string{"example.com/f"}}, Data: map[string]string{"k": "1"}}
		require.NoError(t, s.Create(cm))
		require.Empty(t, cm.ManagedFields)
		created := time.Now()
		<-time.After(time.Minute)
		cm.Data["m"] = "1"
		cm, err := client.Update(t.Context(), cm, metav1.UpdateOptions{FieldManager: "editor"})
		require.NoError(t, err)
		require.Empty(t, cm.ManagedFields)
		edited := time.Now()
		<-time.After(time.Minute)
		require.NoError(t, client.Delete(t.Context(), "a", metav1.DeleteOptions{})) // the finalizer holds it

		_, err = client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns").WithData(map[string]string{"k": "2", "m": "2"}), metav1.ApplyOptions{FieldManager: "mine"})
		require.True(t, apierrors.IsConflict(err), err)
		require.ErrorContains(t, err, `conflicts with "editor" using v1`)
		require.ErrorContains(t, err, `conflicts with "reflectortest" using v1`)

		cm, err = client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns").WithData(map[string]string{"n": "1"}), metav1.ApplyOptions{FieldManager: "mine"})
		require.NoError(t, err)
		times := map[string]time.Time{}
		for _, entry := range cm.ManagedFields {
			times[entry.Manager] = entry.Time.UTC()
		}
		require.Equal(t, map[string]time.Time{
			"reflectortest": created.UTC().Truncate(time.Second), "editor": edited.UTC().Truncate(time.Second), "mine": time.Now().UTC().Truncate(time.Second),
		}, times)
	})
}

// TestFirstApplyAfterCompaction gives the fields of the oldest known version to its writer.
func TestFirstApplyAfterCompaction(t *testing.T) {
	t.Parallel()
	s := reflectortest.Start(t)
	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("ns")
	cm, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "1"}}, metav1.CreateOptions{FieldManager: "first"})
	require.NoError(t, err)
	for _, manager := range []string{"second", "third"} {
		cm.Data[manager] = "1"
		cm, err = client.Update(t.Context(), cm, metav1.UpdateOptions{FieldManager: manager})
		require.NoError(t, err)
	}
	require.NoError(t, s.Compact(s.ResourceVersion()))
	cm, err = client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns"), metav1.ApplyOptions{FieldManager: "mine"})
	require.NoError(t, err)
	require.Len(t, cm.ManagedFields, 2)
	require.Equal(t, "second", cm.ManagedFields[0].Manager)
	require.JSONEq(t, `{"f:data":{".":{},"f:k":{},"f:second":{}}}`, cm.ManagedFields[0].FieldsV1.GetRawString())
	require.Equal(t, "third", cm.ManagedFields[1].Manager)
}

// TestGivenManagedFieldsStay keeps the managedFields of an object that a test took from a cluster.
func TestGivenManagedFieldsStay(t *testing.T) {
	t.Parallel()
	s := reflectortest.Start(t)
	given := metav1.ManagedFieldsEntry{
		Manager: "cluster", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:k":{}}}`), Time: new(metav1.Unix(1, 0)),
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{given}}, Data: map[string]string{"k": "1"}}
	require.NoError(t, s.Create(cm))
	cm.Data["m"] = "1"
	require.NoError(t, s.Update(cm))
	require.Len(t, cm.ManagedFields, 1)

	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("ns")
	_, err := client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns").WithData(map[string]string{"k": "2"}), metav1.ApplyOptions{FieldManager: "mine"})
	require.ErrorContains(t, err, `conflict with "cluster"`)
	cm, err = client.Apply(t.Context(), applycorev1.ConfigMap("a", "ns").WithData(map[string]string{"k": "2"}), metav1.ApplyOptions{FieldManager: "mine", Force: true})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "2", "m": "1"}, cm.Data)
}

func TestSchemaIsChecked(t *testing.T) {
	t.Parallel()
	_, err := reflectortest.NewServer(reflectortest.WithResource(reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Site", Plural: "sites", Schema: []byte("{bad")}))
	require.ErrorContains(t, err, "schema of sites")
}
