package reflector_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/rest"
)

// speaking is a server of ConfigMaps a and b that speaks CBOR and JSON, or only one of them: then
// it refuses whoever asks for something else as well.
type speaking struct {
	cbor, refuses bool

	mu      sync.Mutex
	accepts []string
}

func (s *speaking) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accept := r.Header.Get("Accept")
	s.accepts = append(s.accepts, accept)
	if s.refuses && strings.Contains(accept, ",") {
		return answered(r, http.StatusNotAcceptable, "application/json", []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotAcceptable","code":406}`)), nil
	}
	marshal, contentType, watches := json.Marshal, "application/json", "application/json;stream=watch"
	if s.cbor && strings.Contains(accept, "cbor") {
		marshal, contentType, watches = direct.Marshal, "application/cbor", "application/cbor-seq"
	}
	encode := func(v any) []byte {
		data, err := marshal(v)
		if err != nil {
			panic(err)
		}
		if contentType == "application/cbor" {
			data = append([]byte{0xd9, 0xd9, 0xf7}, data...) // as API servers do
		}
		return data
	}
	if r.URL.Query().Get("watch") == "" {
		list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "8"}}
		list.Items = append(list.Items, *protobufConfigMap("a"), *protobufConfigMap("b"))
		return answered(r, http.StatusOK, contentType, encode(list)), nil
	}
	event := func(kind string, object any) []byte {
		return encode(metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: encode(object)}})
	}
	done := protobufConfigMap("")
	done.ResourceVersion, done.Annotations = "9", map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	expired := apierrors.NewResourceExpired("too old").ErrStatus
	expired.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	var body []byte
	if r.URL.Query().Get("sendInitialEvents") != "" {
		body = bytes.Join([][]byte{event("ADDED", protobufConfigMap("a")), event("ADDED", protobufConfigMap("b")), event("BOOKMARK", done)}, nil)
	}
	return answered(r, http.StatusOK, watches, append(body, event("ERROR", expired)...)), nil
}

func answered(r *http.Request, code int, contentType string, body []byte) *http.Response {
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body))}
}

func TestFormatIsWhatTheServerSpeaks(t *testing.T) {
	const both, inProtobuf = "application/cbor,application/json", "application/vnd.kubernetes.protobuf,application/json"
	for name, tc := range map[string]struct {
		server  *speaking
		opts    []reflector.ResourceOption
		accepts []string // of two lists
	}{
		"CBOR":                       {&speaking{cbor: true}, []reflector.ResourceOption{reflector.WithCBOR()}, []string{both, both}},
		"JSON, CBOR is asked for":    {&speaking{}, []reflector.ResourceOption{reflector.WithCBOR()}, []string{both, both}},
		"JSON, and refuses CBOR":     {&speaking{refuses: true}, []reflector.ResourceOption{reflector.WithCBOR()}, []string{both, "application/json", "application/json"}},
		"JSON, and refuses protobuf": {&speaking{refuses: true}, nil, []string{inProtobuf, "application/json", "application/json"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, watchList := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					server := &speaking{cbor: tc.server.cbor, refuses: tc.server.refuses}
					config := localhost(server)
					client, err := reflector.ForResource[*corev1.ConfigMap](config, configMapResource, "default", tc.opts...)
					require.NoError(t, err)
					for range 2 {
						list, err := client.List(t.Context(), metav1.ListOptions{})
						require.NoError(t, err)
						require.Len(t, list.Items, 2)
						assert.Equal(t, protobufConfigMap("b"), list.Items[1])
					}
					assert.Equal(t, tc.accepts, server.accepts)

					var opts []reflector.Option
					if !watchList {
						opts = append(opts, reflector.WithoutWatchList())
					}
					s := store.New(store.ObjectKey[*corev1.ConfigMap])
					var errs []error
					r := reflector.New(client, s, append(opts, reflector.WithErrorHook(func(_ context.Context, err error) { errs = append(errs, err) }))...)
					stop := start(t, r)
					assert.Equal(t, 2, s.Len())
					<-time.After(time.Second / 2)
					stop()
					for _, accept := range server.accepts[len(tc.accepts):] {
						assert.Equal(t, tc.accepts[len(tc.accepts)-1], accept, "what was learnt is not asked again")
					}
					assert.Greater(t, len(server.accepts), len(tc.accepts))
					require.Len(t, errs, 1)
					assert.True(t, apierrors.IsResourceExpired(errs[0]), "%v", errs[0])
				})
			}
		})
	}
}

func TestCBORObjectsOfOtherTypes(t *testing.T) {
	config := &rest.Config{Host: "http://localhost", Transport: &speaking{cbor: true}, QPS: -1}
	loose, err := reflector.ForResource[*unstructured.Unstructured](config, configMapResource, "default", reflector.WithCBOR())
	require.NoError(t, err)
	objects, err := loose.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Equal(t, "a", objects.Items[0].GetName())
	assert.Equal(t, "ConfigMap", objects.Items[0].GetKind())

	small, err := reflector.ForResource[*Placed](config, configMapResource, "default", reflector.WithCBOR())
	require.NoError(t, err)
	placed, err := small.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err, "what it has no field for is ignored")
	assert.Equal(t, "b", placed.Items[1].Name)

	bad, err := reflector.ForResource[*BadPaint](config, configMapResource, "default", reflector.WithCBOR())
	require.NoError(t, err)
	_, err = bad.List(t.Context(), metav1.ListOptions{})
	var failure *reflector.DecodeError
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, "a", failure.Name)
	assert.Equal(t, "/data/color", failure.Field)
}
