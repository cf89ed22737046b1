package reflector_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

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
