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
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// speaking is a server of ConfigMaps a and b that speaks only JSON. It may refuse requests that
// accept another format, too.
type speaking struct {
	refuses bool

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
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return data
	}
	if r.URL.Query().Get("watch") == "" {
		list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "8"}}
		list.Items = append(list.Items, *protobufConfigMap("a"), *protobufConfigMap("b"))
		return answered(r, http.StatusOK, "application/json", encode(list)), nil
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
	return answered(r, http.StatusOK, "application/json;stream=watch", append(body, event("ERROR", expired)...)), nil
}

func answered(r *http.Request, code int, contentType string, body []byte) *http.Response {
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body))}
}

func TestFormatIsWhatTheServerSpeaks(t *testing.T) {
	const both = "application/vnd.kubernetes.protobuf,application/json"
	for name, tc := range map[string]struct {
		refuses bool
		opts    []client.ResourceOption
		accepts []string // of two lists
	}{
		"JSON, protobuf is requested":  {false, nil, []string{both, both}},
		"JSON, only JSON is requested": {false, []client.ResourceOption{client.WithoutProtobuf()}, []string{"application/json", "application/json"}},
		"JSON, and refuses protobuf":   {true, nil, []string{both, "application/json", "application/json"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, watchList := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					server := &speaking{refuses: tc.refuses}
					config := localhost(server)
					resource, err := client.ForResource[*corev1.ConfigMap](config, configMapResource, "default", tc.opts...)
					require.NoError(t, err)
					for range 2 {
						list, err := resource.List(t.Context(), metav1.ListOptions{})
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
					r := reflector.New(resource, s, append(opts, reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))...)
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
