package reflector_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
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
	var unreadable *answer.ResponseError
	var bad *answer.DecodeError
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
func streamError[T reflector.Object](ctx context.Context, w watch.Interface) error {
	s := w.(*stream.Channel[T]).Items()
	for {
		items, err := s.Next(ctx, nil)
		for _, e := range items {
			if e.Err != nil {
				return e.Err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// canned is a server that answers every list with one body and every watch with
// another.
type canned struct {
	contentType string
	list, watch []byte
	requests    atomic.Int32
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	body, contentType := c.list, c.contentType
	if r.URL.Query().Get("watch") != "" {
		body, contentType = c.watch, c.contentType+";stream=watch"
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: r,
		Header: http.Header{"Content-Type": {contentType}},
		Body:   io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// FuzzResponses feeds a reflector lists and watches that no server would send. It
// must not panic, must not hang, and must not ask all the time.
func FuzzResponses(f *testing.F) {
	object := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u", ResourceVersion: "5"}}
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.ConfigMap{object}}
	list.Kind, list.APIVersion = "ConfigMapList", "v1"
	var inProtobuf bytes.Buffer
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	if err := serializer.Encode(list, &inProtobuf); err != nil {
		f.Fatal(err)
	}
	event := `{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","name":"a","uid":"u","resourceVersion":"9"}}}` + "\n"
	for _, watch := range []string{
		event, event + event, event[:40], "", "{}\n", "null\n", `{"type":"ADDED"}` + "\n", `{"type":"ADDED","object":null}` + "\n",
		`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n",
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}` + "\n",
		`{"type":"ERROR","object":{"kind":"ConfigMap","apiVersion":"v1"}}` + "\n",
		`{"type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}}` + "\n",
		"<html>no</html>",
	} {
		f.Add([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`), []byte(watch), false)
	}
	f.Add([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"x","resourceVersion":"7"}}`), []byte(event), false)
	f.Add([]byte(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`), []byte(event), false)
	f.Add([]byte(`null`), []byte(event), false)
	f.Add(inProtobuf.Bytes(), inProtobuf.Bytes(), true)
	first, last := protobufEvent(f, "ADDED", protobufConfigMap("b")), protobufEvent(f, "DELETED", protobufConfigMap("a"))
	f.Add(inProtobuf.Bytes(), append(bytes.Clone(first), last...), true)
	f.Add(inProtobuf.Bytes(), append(bytes.Clone(first), last[:30]...), true)
	f.Add(inProtobuf.Bytes(), protobufEvent(f, "ERROR", &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 410, Reason: metav1.StatusReasonExpired}), true)
	f.Add(inProtobuf.Bytes()[:20], []byte{0, 0, 0, 3, 1, 2, 3}, true)

	f.Fuzz(func(t *testing.T, list, watch []byte, inProtobuf bool) {
		server := &canned{contentType: runtime.ContentTypeJSON, list: list, watch: watch}
		if inProtobuf {
			server.contentType = runtime.ContentTypeProtobuf
		}
		synctest.Test(t, func(t *testing.T) {
			config := localhost(server)
			config.ContentType = server.contentType
			clientset := kubernetes.NewForConfigOrDie(config)
			generated := clientset.CoreV1().ConfigMaps("default")
			resource, err := client.ForResource[*corev1.ConfigMap](config, configMapResource, "default")
			if err != nil {
				t.Fatal(err)
			}
			overREST, err := client.FromRESTClient[*corev1.ConfigMap](clientset.CoreV1().RESTClient(), "configmaps", "default")
			if err != nil {
				t.Fatal(err)
			}
			for _, opts := range [][]reflector.Option{nil, {reflector.WithoutWatchList()}} {
				fuzzed(t, server, reflector.New(generated, store.New(store.ObjectKey[*corev1.ConfigMap]), opts...))
				fuzzed(t, server, reflector.New(resource, store.New(store.ObjectKey[*corev1.ConfigMap]), opts...))
				fuzzed(t, server, reflector.New(overREST, store.New(store.ObjectKey[*corev1.ConfigMap]), opts...))
			}
		})
	})
}

// fuzzed runs a reflector for a minute.
func fuzzed(t *testing.T, server *canned, r *reflector.KubernetesResourceReflector[*corev1.ConfigMap]) {
	server.requests.Store(0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
	// Each turn waits at least 0.8 seconds, and asks for a list, its pages, a list
	// without pages, and a watch.
	if n := server.requests.Load(); n > 5*75 {
		t.Errorf("%d requests in a minute", n)
	}
}
