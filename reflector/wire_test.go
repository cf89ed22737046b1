package reflector_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// withResources calls do with every kind of Resource of ConfigMaps, and with the content
// type that it should be sent.
func withResources(t *testing.T, do func(t *testing.T, contentType string, resource func(*rest.Config) *client.Resource[*corev1.ConfigMap])) {
	const inJSON, inProtobuf = "application/json", "application/vnd.kubernetes.protobuf"
	for name, tc := range map[string]struct {
		contentType string
		make        func(*rest.Config) (*client.Resource[*corev1.ConfigMap], error)
	}{
		"protobuf": {inProtobuf, func(config *rest.Config) (*client.Resource[*corev1.ConfigMap], error) {
			return client.ForResource[*corev1.ConfigMap](config, configMapResource, "default")
		}},
		"JSON": {inJSON, func(config *rest.Config) (*client.Resource[*corev1.ConfigMap], error) {
			return client.ForResource[*corev1.ConfigMap](config, configMapResource, "default", client.WithoutProtobuf())
		}},
		"protobuf, over a REST client": {inProtobuf, func(config *rest.Config) (*client.Resource[*corev1.ConfigMap], error) {
			return client.FromRESTClient[*corev1.ConfigMap](kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient(), "configmaps", "default")
		}},
		"JSON, over a REST client": {inJSON, func(config *rest.Config) (*client.Resource[*corev1.ConfigMap], error) {
			resource := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
			return client.FromRESTClient[*corev1.ConfigMap](resource, "configmaps", "default", client.WithoutProtobuf())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				do(t, tc.contentType, func(config *rest.Config) *client.Resource[*corev1.ConfigMap] {
					resource, err := tc.make(config)
					require.NoError(t, err)
					return resource
				})
			})
		})
	}
}

// recorded notes the content types of answers.
type recorded struct {
	http.RoundTripper
	mu    sync.Mutex
	types []string
}

func (r *recorded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil && request.URL.Path != "/version" {
		r.mu.Lock()
		defer r.mu.Unlock()
		media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
		r.types = append(r.types, media)
	}
	return response, err
}

func TestObjectsFromTheWireAreThoseOfTheDynamicClient(t *testing.T) {
	for name, opts := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList(), reflector.WithPageSize(1)}} {
		t.Run(name, func(t *testing.T) {
			withResources(t, func(t *testing.T, contentType string, resource func(*rest.Config) *client.Resource[*corev1.ConfigMap]) {
				server := reflectortest.Start(t)
				require.NoError(t, server.Create(paint("a", "red")))
				require.NoError(t, server.Create(paint("b", "red")))
				config, seen := server.Config(), &recorded{}
				config.Wrap(func(to http.RoundTripper) http.RoundTripper { seen.RoundTripper = to; return seen })
				s := store.New(store.ObjectKey[*corev1.ConfigMap])
				stop := start(t, reflector.New(resource(config), s, opts...))
				require.NoError(t, server.Create(paint("c", "blue")))
				synctest.Wait()

				want, err := dynamic.NewForConfigOrDie(server.Config()).Resource(configMapResource).Namespace("default").List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				var got []corev1.ConfigMap
				for _, o := range s.All() {
					got = append(got, *o)
				}
				assert.Len(t, got, 3)
				assert.Equal(t, fmt.Sprintf("%+v", typed(t, want)), fmt.Sprintf("%+v", got))
				assert.Equal(t, metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, got[0].TypeMeta, "also of lists that say it once")
				assert.Equal(t, got[0].TypeMeta, got[2].TypeMeta)
				stop()
				for _, media := range seen.types {
					assert.Equal(t, contentType, media)
				}
				assert.NotEmpty(t, seen.types)
			})
		})
	}
}

func typed(t *testing.T, list *unstructured.UnstructuredList) (objects []corev1.ConfigMap) {
	for i := range list.Items {
		text, err := list.Items[i].MarshalJSON()
		require.NoError(t, err)
		var object corev1.ConfigMap
		require.NoError(t, json.Unmarshal(text, &object))
		objects = append(objects, object)
	}
	return objects
}

// start runs a reflector until the returned function is called, and returns when it is in step.
func start[T reflector.Object](t *testing.T, r *reflector.KubernetesResourceReflector[T]) (stop func()) {
	ended := launched(t, r)
	synctest.Wait()
	return func() { assert.NoError(t, ended()) }
}

// launched runs a reflector. stop waits for the end of Run and returns its error.
func launched[T reflector.Object](t *testing.T, r *reflector.KubernetesResourceReflector[T]) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

func TestResourceThatIsWrappedIsReadThroughTheWrapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		require.NoError(t, server.Create(paint("b", "red")))
		resource, err := client.ForResource[*Paint](server.Config(), configMapResource, "default")
		require.NoError(t, err)
		reflects(t, server, wrapped{resource}, func(p *Paint) string { return p.Data.Color })
	})
}

// wrapped is what New does not take for a Resource.
type wrapped struct{ *client.Resource[*Paint] }

// Nameless has the methods of its metadata, Unmarshal among them, but is no message.
type Nameless struct {
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

// Extended has the methods of a ConfigMap, which know nothing of More.
type Extended struct {
	corev1.ConfigMap `json:",inline"`
	More             map[string]string `json:"more"`
}

func TestOnlyWholeMessagesAreAskedForInProtobuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		assert.Equal(t, "application/json", asked[*Paint](t, server))
		assert.Equal(t, "application/json", asked[*Nameless](t, server))
		assert.Equal(t, "application/json", asked[*Extended](t, server))
		assert.Equal(t, "application/json", asked[*unstructured.Unstructured](t, server))
		assert.Equal(t, "application/vnd.kubernetes.protobuf,application/json", asked[*corev1.ConfigMap](t, server))
		const metadata = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
		assert.Equal(t, "application/vnd.kubernetes.protobuf"+metadata+"application/json"+metadata+"application/json", asked[*metav1.PartialObjectMetadata](t, server))
	})
}

// asked lists ConfigMaps as T, and returns the content types that were asked for.
func asked[T reflector.Object](t *testing.T, server *reflectortest.Server) (accept string) {
	config := server.Config()
	config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			accept = r.Header.Get("Accept")
			return to.RoundTrip(r)
		})
	})
	resource, err := client.ForResource[T](config, configMapResource, "default")
	require.NoError(t, err)
	list, err := resource.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, "a", list.Items[0].GetName())
	return accept
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestResourceOptions(t *testing.T) {
	list := func(t *testing.T, opts ...client.ResourceOption) []*Paint {
		server := reflectortest.Start(t)
		for _, name := range []string{"a", "b", "c", "d"} {
			c := paint(name, "red")
			c.Labels = map[string]string{"app.kubernetes.io/name": "both"}
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}}
			c.Data["size"] = "3"
			require.NoError(t, server.Create(c))
		}
		resource, err := client.ForResource[*Paint](server.Config(), configMapResource, "default", opts...)
		require.NoError(t, err)
		got, err := resource.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, got.Items, 4)
		return got.Items
	}
	shares := func(objects []*Paint) bool {
		objects[2].Labels["is"] = "shared"
		return objects[3].Labels["is"] == "shared" // values are kept when they come again
	}
	synctest.Test(t, func(t *testing.T) {
		objects := list(t)
		assert.True(t, shares(objects))
		assert.False(t, shares(list(t, client.WithoutInterning())))
		assert.NotEmpty(t, objects[0].ManagedFields)
		assert.Empty(t, list(t, client.WithoutManagedFields())[0].ManagedFields)

		var unknown []string
		list(t, client.WithUnknownFields(func(err *answer.DecodeError) { unknown = append(unknown, err.Error()) }))
		require.Len(t, unknown, 4)
		assert.Contains(t, unknown[0], "configmaps/v1 default/a")
		assert.Contains(t, unknown[1], "size")
	})
}

func TestRESTClientThatIsNone(t *testing.T) {
	resource, err := client.FromRESTClient[*corev1.ConfigMap]((*rest.RESTClient)(nil), "configmaps", "")
	require.NoError(t, err)
	assert.ErrorIs(t, reflector.New(resource, store.New(store.ObjectKey[*corev1.ConfigMap])).Run(t.Context()), reflector.ErrNoClient)
	_, err = resource.List(t.Context(), metav1.ListOptions{})
	assert.ErrorIs(t, err, reflector.ErrNoClient)
	_, err = resource.Watch(t.Context(), metav1.ListOptions{})
	assert.ErrorIs(t, err, reflector.ErrNoClient)
	_, err = resource.Get(t.Context(), "a", metav1.GetOptions{})
	assert.ErrorIs(t, err, reflector.ErrNoClient)
	_, err = client.FromRESTClient[metav1.Object](nil, "configmaps", "")
	assert.ErrorIs(t, err, client.ErrNoStruct)
}

// speaking is a server of ConfigMaps a and b that speaks only JSON. It may refuse requests that
// accept another format, too.
type speaking struct {
	refuses bool

	mu      sync.Mutex
	accepts []string
}

func (s *speaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/version" {
		return noVersion(r), nil
	}
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
