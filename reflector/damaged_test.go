package reflector_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// inProtobuf encodes an object with its envelope.
func inProtobuf(t testing.TB, object runtime.Object) []byte {
	var raw bytes.Buffer
	require.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &raw))
	return raw.Bytes()
}

// protobufEvent is an event as API servers send it.
func protobufEvent(t testing.TB, kind string, object runtime.Object) []byte {
	event, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: inProtobuf(t, object)}}).Marshal()
	require.NoError(t, err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

func protobufConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u", ResourceVersion: "8", Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{"color": "red"},
	}
}

// bodyOf makes a client whose every request is answered with a body of protobuf.
func bodyOf(t testing.TB, body []byte) *client.Resource[*corev1.ConfigMap] {
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf}},
			Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	})
	resource, err := client.ForResource[*corev1.ConfigMap](&rest.Config{Host: "http://localhost", Transport: transport, QPS: -1}, configMapResource, "default", client.WithMaxObjectBytes(1<<16))
	require.NoError(t, err)
	return resource
}

// isOurs reports whether an error is one that tells what was asked, or which object it was.
func isOurs(err error) bool {
	var unreadable *client.ResponseError
	var bad *client.DecodeError
	return errors.As(err, &unreadable) && unreadable.Request != "" || errors.As(err, &bad)
}

func TestDamagedProtobufLists(t *testing.T) {
	list := &corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "9"},
		Items: []corev1.ConfigMap{*protobufConfigMap("a"), *protobufConfigMap("b")},
	}
	body := inProtobuf(t, list)
	whole, err := bodyOf(t, body).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, whole.Items, 2)
	// What comes after the list's contents in the envelope may be missing: nobody needs it.
	contents, _ := list.Marshal()
	last := bytes.Index(body, contents) + len(contents)
	for n := range body {
		_, err := bodyOf(t, body[:n]).List(t.Context(), metav1.ListOptions{})
		if n < last {
			require.ErrorIs(t, err, client.ErrTruncated, "after %d bytes", n)
			require.True(t, isOurs(err))
		}
		for _, flip := range []byte{0x01, 0x08, 0x80, 0xff} {
			damaged := bytes.Clone(body)
			damaged[n] ^= flip
			got, err := bodyOf(t, damaged).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				require.True(t, isOurs(err), "byte %d: %v", n, err)
				continue
			}
			require.NotNil(t, got)
		}
	}
}

func TestDamagedProtobufWatches(t *testing.T) {
	first, second := protobufEvent(t, "ADDED", protobufConfigMap("a")), protobufEvent(t, "MODIFIED", protobufConfigMap("b"))
	body := append(bytes.Clone(first), second...)
	read := func(body []byte) (events int) {
		w, err := bodyOf(t, body).Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		for range w.ResultChan() {
			events++
		}
		return events
	}
	assert.Equal(t, 2, read(body))
	for n := range body {
		want := 1 // an event, or why there is none
		if n > len(first) {
			want = 2
		}
		if n == 0 {
			want = 0
		}
		require.Equal(t, want, read(body[:n]), "after %d bytes", n)
		if n != 0 && n != len(first) {
			w, err := bodyOf(t, body[:n]).Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			err = streamError[*corev1.ConfigMap](t.Context(), w)
			w.Stop()
			require.ErrorIs(t, err, client.ErrTruncated, "after %d bytes", n)
			require.True(t, isOurs(err))
		}
		for _, flip := range []byte{0x01, 0x08, 0x80, 0xff} {
			damaged := bytes.Clone(body)
			damaged[n] ^= flip
			if n >= len(first) {
				require.GreaterOrEqual(t, read(damaged), 1, "what was before the damage is there")
			} else {
				read(damaged)
			}
		}
	}
}

// streamError returns the error that ends a watch of a Resource, or nil.
func streamError[T source.Object](ctx context.Context, w watch.Interface) error {
	s := w.(*source.Watch[T]).Stream(w)
	for {
		events, err := s.Next(ctx, nil)
		for _, e := range events {
			if e.Err != nil {
				return e.Err
			}
		}
		if err != nil {
			return nil
		}
	}
}
