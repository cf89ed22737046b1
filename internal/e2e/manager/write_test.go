package manager

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/mapper"
)

// Bucket is a custom resource.
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              BucketSpec   `json:"spec,omitzero"`
	Status            BucketStatus `json:"status,omitzero"`
}

type BucketSpec struct {
	Size  int    `json:"size,omitempty"`
	Color string `json:"color,omitempty"`
}

type BucketStatus struct {
	Used int `json:"used,omitempty"`
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	buckets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "buckets"}
	bucketKind  = buckets.GroupVersion().WithKind("Bucket")
)

// install has the server serve buckets, and waits until it does.
func install(t *testing.T, config *rest.Config, served func() error) {
	t.Helper()
	resource, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "buckets.example.com"},
		"spec": map[string]any{
			"group": buckets.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "buckets", "singular": "bucket", "kind": "Bucket", "listKind": "BucketList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	_, err = resource.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, resource.Resource(definitions).Delete(context.Background(), definition.GetName(), metav1.DeleteOptions{}))
	})
	eventually(t, "buckets", func() bool { return served() == nil })
}

func TestStructIsWrittenToTheServer(t *testing.T) {
	config, _, namespace := connect(t)
	in := mapper.WithDirectory(t.TempDir())
	found, err := mapper.OnDisk(config, in)
	require.NoError(t, err)
	read, err := client.For[*Bucket](config, client.WithKind(bucketKind), client.WithRESTMapper(found))
	require.NoError(t, err)
	read = read.In(namespace)
	_, err = read.List(t.Context(), metav1.ListOptions{})
	require.ErrorIs(t, err, reflector.ErrNotServed)
	install(t, config, func() error {
		_, err := read.List(t.Context(), metav1.ListOptions{}) // has the mapper ask again
		return err
	})

	all, err := write.ForResource[*Bucket](config, buckets, "Bucket")
	require.NoError(t, err)
	resource, ctx := all.In(namespace), t.Context()
	t.Run("patches are of one state of one object", func(t *testing.T) {
		made, err := write.Create(ctx, resource, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: BucketSpec{Size: 1}, Status: BucketStatus{Used: 9}})
		require.NoError(t, err)
		assert.Zero(t, made.Status, "status is written by itself")
		want := *made
		want.Status.Used = 3
		full, err := write.Status(ctx, resource, made, &want)
		require.NoError(t, err)
		assert.Equal(t, 3, full.Status.Used)
		want = *full
		want.Status.Used = 0
		empty, err := write.Status(ctx, resource, full, &want)
		require.NoError(t, err)
		assert.Zero(t, empty.Status)

		_, err = write.AddFinalizer(ctx, resource, full, "example.com/test")
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		require.NoError(t, write.Delete(ctx, resource, empty))
		again, err := write.Create(ctx, resource, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		require.NoError(t, err)
		require.NoError(t, write.Delete(ctx, resource, empty), "that one is gone")
		stale := *empty
		stale.ResourceVersion = again.ResourceVersion
		_, err = write.AddFinalizer(ctx, resource, &stale, "example.com/test")
		assert.Error(t, err, "another UID")
		now, err := read.Get(ctx, "a", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, again.UID, now.UID)
		assert.Empty(t, now.Finalizers)
	})
	t.Run("finalizers", func(t *testing.T) {
		made, err := write.Create(ctx, resource, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "f"}})
		require.NoError(t, err)
		cleaned := 0
		finalize := func(held *Bucket) (alive bool) {
			_, alive, err := write.Finalize(ctx, resource, held, "example.com/test", func(context.Context, *Bucket) error { cleaned++; return nil })
			require.NoError(t, err)
			return alive
		}
		assert.True(t, finalize(made))
		require.NoError(t, write.Delete(ctx, resource, made))
		held, err := read.Get(ctx, "f", metav1.GetOptions{})
		require.NoError(t, err)
		_, err = write.AddFinalizer(ctx, resource, held, "example.com/other")
		assert.ErrorIs(t, err, write.ErrDeleting)
		assert.False(t, finalize(held))
		assert.Equal(t, 1, cleaned)
		_, err = read.Get(ctx, "f", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
		assert.False(t, finalize(held), "by an old cache: it may be cleaned twice")
	})
	t.Run("server-side apply", func(t *testing.T) {
		made, err := write.Apply(ctx, resource, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: BucketSpec{Size: 1, Color: "red"}}, "one")
		require.NoError(t, err)
		same, err := write.Apply(ctx, resource, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: BucketSpec{Size: 1, Color: "red"}}, "one")
		require.NoError(t, err)
		assert.Equal(t, made.ResourceVersion, same.ResourceVersion, "nothing was written")
		less, err := write.Apply(ctx, resource, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: BucketSpec{Size: 1}}, "one")
		require.NoError(t, err)
		assert.Empty(t, less.Spec.Color)
		_, err = write.Apply(ctx, resource, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: BucketSpec{Size: 2}}, "two")
		assert.True(t, apierrors.IsConflict(err), "%v", err)
	})
}

func TestAppliedConfigurationThatIsThereIsNotAskedFor(t *testing.T) {
	_, clientset, namespace := connect(t)
	resource, ctx := clientset.CoreV1().ConfigMaps(namespace), t.Context()
	want := applycore.ConfigMap("c", namespace).WithLabels(map[string]string{"l": "x"}).WithData(map[string]string{"a": "1"})
	_, err := write.Apply(ctx, resource, want, "me")
	require.NoError(t, err)
	held, err := resource.Get(ctx, "c", metav1.GetOptions{})
	require.NoError(t, err)
	same, err := write.ApplyChanged(ctx, resource, held, applycore.ExtractConfigMap, want, "me")
	require.NoError(t, err)
	assert.Same(t, held, same)
	want.WithData(map[string]string{"a": "2"})
	changed, err := write.ApplyChanged(ctx, resource, held, applycore.ExtractConfigMap, want, "me")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "2"}, changed.Data)

	owner, err := write.Create(ctx, resource, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}})
	require.NoError(t, err)
	owned, err := write.Adopt(ctx, resource, owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"), changed)
	require.NoError(t, err)
	assert.True(t, metav1.IsControlledBy(owned, owner))
}
