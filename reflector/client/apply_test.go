package client_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

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
		return answer(r, http.StatusOK, string(sent)), nil
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
		return answer(r, http.StatusOK, `{"kind":"Bucket","apiVersion":"example.com/v1","metadata":{"namespace":"ns","name":"b","labels":{"a":"b"}},"spec":{"size":1}}`), nil
	})}
	of, err := client.ForResource[*metav1.PartialObjectMetadata](config, buckets, "ns", client.WithKind(bucketKind))
	require.NoError(t, err)
	got, err := of.Apply(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"a": "b"}}}, metav1.ApplyOptions{FieldManager: "me"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "b"}, got.Labels)
	assert.JSONEq(t, `{"kind":"Bucket","apiVersion":"example.com/v1","metadata":{"name":"b","labels":{"a":"b"}}}`, string(sent))
}
