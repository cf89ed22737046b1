package write

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestResourceWritesAPlainStruct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t), t.Context()
		made, err := Create(ctx, w.buckets, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: BucketSpec{Size: 1}, Status: BucketStatus{Used: 1}})
		require.NoError(t, err)
		assert.Equal(t, "ns", made.Namespace)
		assert.NotEmpty(t, made.UID)
		assert.Equal(t, Bucket{TypeMeta: made.TypeMeta, ObjectMeta: made.ObjectMeta, Spec: BucketSpec{Size: 1}}, *made, "status is written by itself")
		_, err = Create(ctx, w.buckets, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		assert.False(t, apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), "what the server said is read")

		want := *made
		want.Spec.Size = 2
		updated, err := w.buckets.Update(ctx, &want, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, 2, updated.Spec.Size)
		_, err = w.buckets.Update(ctx, &want, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		updated.Status.Used = 3
		updated, err = w.buckets.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, 3, updated.Status.Used)

		patched, err := w.buckets.Patch(ctx, "b", types.MergePatchType, []byte(`{"spec":{"size":7}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Equal(t, 7, patched.Spec.Size)

		require.NoError(t, Delete(ctx, w.buckets, patched))
		_, err = w.buckets.Patch(ctx, "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
	})
}

func TestDeletionSaysWhichObjectItMeans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		made, err := Create(t.Context(), w.buckets, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		require.NoError(t, err)
		err = w.buckets.Delete(t.Context(), "b", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		require.NoError(t, w.server.Get(made))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestResourceAppliesTheStruct(t *testing.T) {
	var got Bucket
	config := &rest.Config{Host: "http://localhost", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Equal(t, http.MethodPatch, r.Method)
		assert.Equal(t, "/apis/example.com/v1/namespaces/ns/buckets/b", r.URL.Path)
		assert.Equal(t, "me", r.URL.Query().Get("fieldManager"))
		assert.Equal(t, string(types.ApplyPatchType), r.Header.Get("Content-Type"))
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&got))
		answer, body := io.Pipe()
		go func() { body.CloseWithError(json.NewEncoder(body).Encode(&got)) }()
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: answer}, nil
	})}
	all, err := ForResource[*Bucket](config, buckets, "Bucket")
	require.NoError(t, err)
	want := &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns"}, Spec: BucketSpec{Size: 3}}
	answer, err := Apply(t.Context(), all.In("ns"), want, "me")
	require.NoError(t, err)
	assert.Equal(t, metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Bucket"}, got.TypeMeta)
	assert.Equal(t, want.Spec, got.Spec)
	assert.Equal(t, &got, answer)
}

func TestResourceOfTheCoreGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		namespaces, err := ForResource[*corev1.Namespace](w.server.Config(), schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "Namespace")
		require.NoError(t, err)
		made, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.NotEmpty(t, made.UID)
	})
}

func TestResourceOfNoUse(t *testing.T) {
	_, err := ForResource[metav1.Object](&rest.Config{}, buckets, "Bucket")
	assert.ErrorIs(t, err, client.ErrNoStruct)
	_, err = ForResource[*Bucket](&rest.Config{Host: "http://%"}, buckets, "Bucket")
	assert.Error(t, err)
}
