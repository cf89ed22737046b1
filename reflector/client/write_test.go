package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestResourceWritesAPlainStruct(t *testing.T) {
	withClients(t, func(t *testing.T, _ *reflectortest.Server, all *client.Resource[*Bucket]) {
		ctx, of := t.Context(), all.In("ns")
		made, err := all.Create(ctx, &Bucket{ObjectMeta: named("ns", "b").ObjectMeta, Spec: BucketSpec{Size: 1}, Status: BucketStatus{Used: 1}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.NotEmpty(t, made.UID)
		want := Bucket{TypeMeta: made.TypeMeta, ObjectMeta: made.ObjectMeta, Spec: BucketSpec{Size: 1}}
		assert.Equal(t, want, *made, "the status has an endpoint of its own")
		_, err = of.Create(ctx, named("", "b"), metav1.CreateOptions{})
		assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		assert.False(t, apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), "the client reads the server's status")

		want.Spec.Size = 2
		updated, err := all.Update(ctx, &want, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, 2, updated.Spec.Size)
		_, err = all.Update(ctx, &want, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		updated.Status.Used = 3
		updated, err = all.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, 3, updated.Status.Used)

		patched, err := of.Patch(ctx, "b", types.MergePatchType, []byte(`{"spec":{"size":7}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Equal(t, 7, patched.Spec.Size)
		patched, err = of.Patch(ctx, "b", types.MergePatchType, []byte(`{"status":{"used":8}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		assert.Equal(t, 8, patched.Status.Used)
		got, err := of.Get(ctx, "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, patched, got)

		err = of.Delete(ctx, "b", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		require.NoError(t, of.Delete(ctx, "b", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(got.UID))}))
		for _, err := range []error{
			of.Delete(ctx, "b", metav1.DeleteOptions{}),
			second(of.Get(ctx, "b", metav1.GetOptions{})),
			second(of.Patch(ctx, "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})),
		} {
			assert.True(t, apierrors.IsNotFound(err), "%v", err)
		}
	})
}

func TestGeneratedNameIsTheServersChoice(t *testing.T) {
	withClients(t, func(t *testing.T, _ *reflectortest.Server, all *client.Resource[*Bucket]) {
		made, err := all.In("ns").Create(t.Context(), &Bucket{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(made.Name, "b-") && made.Name != "b-", made.Name)
	})
}

func TestDryRunWritesNothing(t *testing.T) {
	withClients(t, func(t *testing.T, server *reflectortest.Server, all *client.Resource[*Bucket]) {
		_, err := all.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		asked := server.Requests()
		assert.Contains(t, asked[len(asked)-1].Query, "dryRun")
	})
}

func TestBuiltInKindsNeedNoKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		namespaces, err := client.For[*corev1.Namespace](server.Config())
		require.NoError(t, err)
		made, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.NotEmpty(t, made.UID)
		_, err = namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "m"}}, metav1.CreateOptions{})
		require.ErrorIs(t, err, client.ErrClusterScoped)

		maps, err := client.ForResource[*corev1.ConfigMap](server.Config(), corev1.SchemeGroupVersion.WithResource("configmaps"), "shop")
		require.NoError(t, err)
		created, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "shop", created.Namespace)
	})
}

func TestUnstructuredObjectsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serveBuckets(t)
		all, err := client.ForType[metav1.Object](server.Config(), buckets, &unstructured.Unstructured{})
		require.NoError(t, err)
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(4)}}}
		object.SetNamespace("ns")
		object.SetName("b")
		_, err = all.Create(t.Context(), object, metav1.CreateOptions{})
		require.ErrorIs(t, err, client.ErrNoKind)
		object.SetGroupVersionKind(bucketKind)
		made, err := all.Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.NotEmpty(t, made.GetUID())
	})
}

func TestObjectMayStateAPartOfItsKind(t *testing.T) {
	withClients(t, func(t *testing.T, _ *reflectortest.Server, all *client.Resource[*Bucket]) {
		for name, part := range map[string]metav1.TypeMeta{"kind": {Kind: bucketKind.Kind}, "version": {APIVersion: buckets.GroupVersion().String()}} {
			object := named("ns", name)
			object.TypeMeta = part
			made, err := all.Create(t.Context(), object, metav1.CreateOptions{})
			require.NoError(t, err)
			assert.Equal(t, metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Bucket"}, made.TypeMeta)
		}
	})
}

// A caller changes the object of Get or of a write, and updates it. The cached objects stay as they are.
func TestObjectOfGetAndOfWritesSharesNothing(t *testing.T) {
	withClients(t, func(t *testing.T, server *reflectortest.Server, all *client.Resource[*Bucket]) {
		other, err := client.ForResource[*Bucket](server.Config(), buckets, "ns", client.WithKind(bucketKind))
		require.NoError(t, err)
		sharesNothing(t, other, all.In("ns"), func(name string) *Bucket {
			object := named("ns", name)
			object.Labels = map[string]string{"app": "shop"}
			return object
		})
	})
	synctest.Test(t, func(t *testing.T) {
		config := serveBuckets(t).Config()
		other, err := client.ForType[metav1.Object](config, buckets, &unstructured.Unstructured{}, client.WithKind(bucketKind))
		require.NoError(t, err)
		all, err := client.ForType[metav1.Object](config, buckets, &unstructured.Unstructured{}, client.WithKind(bucketKind))
		require.NoError(t, err)
		sharesNothing(t, other.In("ns"), all.In("ns"), func(name string) metav1.Object {
			return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
				"namespace": "ns", "name": name, "labels": map[string]any{"app": "shop"}, "annotations": map[string]any{"app": "shop"},
			}}}
		})
	})
}

// sharesNothing changes the labels of an object in place. Another client creates the objects, so that
// the decoders of lists are the first ones.
func sharesNothing[T metav1.Object](t *testing.T, other, of *client.Resource[T], object func(name string) T) {
	relabel := func(o T) {
		if u, ok := any(o).(*unstructured.Unstructured); ok {
			u.Object["metadata"].(map[string]any)["labels"].(map[string]any)["app"] = "stock"
			return
		}
		o.GetLabels()["app"] = "stock"
	}
	for _, name := range []string{"a", "b"} {
		_, err := other.Create(t.Context(), object(name), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var items []T
	for range 3 { // a decoder keeps a value for others when it reads the value a second time
		list, err := of.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		items = append(items, list.Items...)
	}
	got, err := of.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	relabel(got)
	patched, err := of.Patch(t.Context(), "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	require.NoError(t, err)
	assert.Equal(t, "shop", patched.GetLabels()["app"])
	relabel(patched)
	again, err := of.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	last, err := of.Get(t.Context(), "b", metav1.GetOptions{})
	require.NoError(t, err)
	for _, o := range append(append(items, again.Items...), last) {
		assert.Equal(t, "shop", o.GetLabels()["app"], o.GetName())
	}
}

func TestApplySendsTheStruct(t *testing.T) {
	var forced []string
	config := &rest.Config{Host: "http://localhost", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Equal(t, http.MethodPatch, r.Method)
		assert.Equal(t, "/apis/example.com/v1/namespaces/ns/buckets/b", r.URL.Path)
		assert.Equal(t, "me", r.URL.Query().Get("fieldManager"))
		assert.Equal(t, string(types.ApplyPatchType), r.Header.Get("Content-Type"))
		forced = append(forced, r.URL.Query().Get("force"))
		sent, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		return reply(r, http.StatusOK, string(sent)), nil
	})}
	all, err := client.ForResource[*Bucket](config, buckets, "", client.WithKind(bucketKind))
	require.NoError(t, err)
	want := named("ns", "b")
	want.Spec.Size = 3
	for _, force := range []bool{false, true} {
		got, err := all.Apply(t.Context(), want, metav1.ApplyOptions{FieldManager: "me", Force: force})
		require.NoError(t, err)
		assert.Equal(t, metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Bucket"}, got.TypeMeta)
		assert.Equal(t, want.Spec, got.Spec)
	}
	assert.Equal(t, []string{"false", "true"}, forced)
	assert.Empty(t, want.TypeMeta, "the client does not change the object")
}

// Without force, a controller would meet the same conflict for ever after one foreign edit.
func TestForcedApplyTakesFieldsOver(t *testing.T) {
	withClients(t, func(t *testing.T, server *reflectortest.Server, all *client.Resource[*Bucket]) {
		ctx, mine := t.Context(), metav1.ApplyOptions{FieldManager: "controller"}
		want := named("ns", "b")
		want.Spec.Size = 1
		_, err := all.Apply(ctx, want, mine)
		require.NoError(t, err)
		edited := named("ns", "b")
		require.NoError(t, server.Get(edited))
		edited.Spec.Size = 9
		require.NoError(t, server.Update(edited))

		_, err = all.Apply(ctx, want, mine)
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		assert.ErrorContains(t, err, `conflict with "reflectortest" using example.com/v1: .spec.size`)
		mine.Force = true
		got, err := all.Apply(ctx, want, mine)
		require.NoError(t, err)
		assert.Equal(t, 1, got.Spec.Size)

		status := named("ns", "b")
		status.Status.Used = 3
		got, err = all.Apply(ctx, status, mine, "status")
		require.NoError(t, err)
		assert.Equal(t, Bucket{TypeMeta: got.TypeMeta, ObjectMeta: got.ObjectMeta, Spec: BucketSpec{Size: 1}, Status: BucketStatus{Used: 3}}, *got)
	})
}

// The server deletes only fields of the same manager.
func TestMetadataIsApplied(t *testing.T) {
	var sent []byte
	config := &rest.Config{Host: "http://localhost", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		var err error
		sent, err = io.ReadAll(r.Body)
		assert.NoError(t, err)
		return reply(r, http.StatusOK, `{"kind":"Bucket","apiVersion":"example.com/v1","metadata":{"namespace":"ns","name":"b","labels":{"a":"b"}},"spec":{"size":1}}`), nil
	})}
	of, err := client.ForResource[*metav1.PartialObjectMetadata](config, buckets, "ns", client.WithKind(bucketKind))
	require.NoError(t, err)
	got, err := of.Apply(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"a": "b"}}}, metav1.ApplyOptions{FieldManager: "me"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "b"}, got.Labels)
	assert.JSONEq(t, `{"kind":"Bucket","apiVersion":"example.com/v1","metadata":{"name":"b","labels":{"a":"b"}}}`, string(sent))
}

// A proxy may answer 200 with a page, before or after the server has the request.
func TestPageInsteadOfAnAnswerLeavesTheOutcomeOpen(t *testing.T) {
	of := over(t, func(r *http.Request) (*http.Response, error) {
		page := reply(r, http.StatusOK, "<html>")
		page.Header.Set("Content-Type", "text/html")
		return page, nil
	})
	const open = "the server may have accepted the request"
	_, err := of.Get(t.Context(), "b", metav1.GetOptions{})
	require.ErrorIs(t, err, client.ErrContentType)
	assert.NotContains(t, err.Error(), open)
	for name, err := range map[string]error{
		"update": second(of.Update(t.Context(), named("ns", "b"), metav1.UpdateOptions{})),
		"delete": of.Delete(t.Context(), "b", metav1.DeleteOptions{}),
	} {
		require.ErrorIs(t, err, client.ErrContentType, name)
		assert.ErrorContains(t, err, open, name)
	}
}
