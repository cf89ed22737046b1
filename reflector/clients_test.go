package reflector_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

var configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// Paint is a ConfigMap as somebody sees it who has no generated types: metadata and
// JSON tags are all that it takes.
type Paint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              struct {
		Color string `json:"color"`
	} `json:"data"`
}

// reflects runs a reflector of a client against a server that changes, and looks at
// the color of the two objects in the end.
func reflects[T reflector.Object, L any](t *testing.T, server *reflectortest.Server, resource reflector.Client[T, L], color func(T) string) {
	s := store.New(store.ObjectKey[T])
	r := reflector.New(resource, s)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()
	<-r.Synced()
	assert.Equal(t, 2, s.Len())
	require.NoError(t, server.Create(paint("c", "blue")))
	a := &corev1.ConfigMap{}
	a.Namespace, a.Name = "default", "a"
	require.NoError(t, server.Delete(a))
	b := paint("b", "green")
	require.NoError(t, server.Update(b))
	synctest.Wait()
	var got []string
	for key, object := range s.All() {
		got = append(got, key.Name+" "+color(object))
		assert.NotEmpty(t, object.GetUID())
	}
	assert.Equal(t, []string{"b green", "c blue"}, got)
	assert.NoError(t, r.State().Err)
	cancel()
	require.NoError(t, <-result)

	streams := server.Requests(reflectortest.Verb("watch"), reflectortest.Param("sendInitialEvents", "true"))
	assert.Len(t, streams, 1, "the first list is a watch-list")
	assert.Empty(t, server.Requests(reflectortest.Verb("list")))
}

func paint(name, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"color": color}}
}

func TestEveryKindOfClient(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *reflectortest.Server, *rest.Config){
		"typed": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			reflects(t, server, resource, func(c *corev1.ConfigMap) string { return c.Data["color"] })
		},
		"typed, in protobuf": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			config.ContentType = "application/vnd.kubernetes.protobuf"
			resource := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			reflects(t, server, resource, func(c *corev1.ConfigMap) string { return c.Data["color"] })
		},
		"without Get": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource := withoutGet{kubernetes.NewForConfigOrDie(config)}
			reflects(t, server, client.ListWatch[*corev1.ConfigMap](resource), func(c *corev1.ConfigMap) string { return c.Data["color"] })
		},
		"dynamic": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource := dynamic.NewForConfigOrDie(config).Resource(configMapResource).Namespace("default")
			reflects(t, server, client.Dynamic(resource), func(u *unstructured.Unstructured) string {
				color, _, _ := unstructured.NestedString(u.Object, "data", "color")
				return color
			})
		},
		"metadata": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource := metadata.NewForConfigOrDie(config).Resource(configMapResource).Namespace("default")
			reflects(t, server, client.Metadata(resource), func(p *metav1.PartialObjectMetadata) string {
				return map[string]string{"b": "green", "c": "blue"}[p.Name] // it has no data
			})
		},
		"resource, into a struct": func(t *testing.T, server *reflectortest.Server, config *rest.Config) {
			resource, err := client.ForResource[*Paint](config, configMapResource, "default")
			require.NoError(t, err)
			reflects(t, server, resource, func(p *Paint) string { return p.Data.Color })
			got, err := resource.Get(t.Context(), "b", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, "green", got.Data.Color)
		},
		"resource, of all namespaces, listed": func(t *testing.T, _ *reflectortest.Server, config *rest.Config) {
			resource, err := client.ForResource[*unstructured.Unstructured](config, configMapResource, "")
			require.NoError(t, err)
			list, err := resource.List(t.Context(), metav1.ListOptions{Limit: 1})
			require.NoError(t, err)
			assert.Len(t, list.Items, 1)
			assert.NotEmpty(t, list.Continue)
			assert.Equal(t, "ConfigMapList", list.Kind)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				require.NoError(t, server.Create(paint("a", "red")))
				require.NoError(t, server.Create(paint("b", "red")))
				run(t, server, server.Config())
			})
		})
	}
}

type withoutGet struct{ clientset kubernetes.Interface }

func (w withoutGet) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return w.clientset.CoreV1().ConfigMaps("default").List(ctx, opts)
}

func (w withoutGet) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return w.clientset.CoreV1().ConfigMaps("default").Watch(ctx, opts)
}

func TestClientsThatCannotWork(t *testing.T) {
	u := store.New(store.ObjectKey[*unstructured.Unstructured])
	assert.ErrorIs(t, reflector.New(client.Dynamic(nil), u).Run(t.Context()), reflector.ErrNoClient)
	p := store.New(store.ObjectKey[*metav1.PartialObjectMetadata])
	assert.ErrorIs(t, reflector.New(client.Metadata(nil), p).Run(t.Context()), reflector.ErrNoClient)
	_, err := client.ForResource[metav1.Object](&rest.Config{}, configMapResource, "")
	assert.ErrorIs(t, err, client.ErrNoStruct)
	_, err = client.ForResource[*Paint](&rest.Config{Host: "http://%"}, configMapResource, "")
	assert.ErrorContains(t, err, "configmaps")
}

// Number is a number in quotes.
type Number int

func (n *Number) UnmarshalJSON(text []byte) error {
	_, err := fmt.Sscanf(string(text), "\"%d\"", n)
	return err
}

// BadPaint does not fit what the server holds.
type BadPaint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]Number `json:"data"`
}

func TestObjectsThatDoNotFitHoldUpNothingElse(t *testing.T) {
	for name, opts := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				resource, err := client.ForResource[*BadPaint](server.Config(), configMapResource, "default")
				require.NoError(t, err)
				s := store.New(store.ObjectKey[*BadPaint])
				var errs []error
				r := reflector.New(resource, s, append(opts, reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))...)
				ctx, cancel := context.WithCancel(t.Context())
				result := make(chan error, 1)
				go func() { result <- r.Run(ctx) }()
				<-r.Synced()
				version := s.ResourceVersion()
				require.NoError(t, server.Create(paint("held", "1")))
				require.NoError(t, server.Create(paint("bad", "red")))
				require.NoError(t, server.Create(paint("good", "2")))
				require.NoError(t, server.Update(paint("held", "red")))
				synctest.Wait()
				require.NotEmpty(t, errs)
				assert.LessOrEqual(t, len(errs), 2, "once for each object, or together")
				var bad *client.DecodeError
				require.ErrorAs(t, errs[0], &bad)
				assert.Equal(t, "bad", bad.Name)
				assert.ErrorContains(t, errs[0], "decode configmaps/v1 default/bad into *reflector_test.BadPaint")
				colors := func() string {
					text := ""
					for key, p := range s.All() {
						text += fmt.Sprintf("%s %d,", key.Name, p.Data["color"])
					}
					return text
				}
				assert.Equal(t, "good 2,held 1,", colors(), "what was held stays, and everything else goes on")
				assert.NotEqual(t, version, s.ResourceVersion(), "held came before bad")
				before := s.ResourceVersion()

				<-time.After(time.Hour) // lists of which two objects do not fit
				require.NoError(t, server.Create(paint("late", "3")))
				synctest.Wait()
				assert.Equal(t, "good 2,held 1,late 3,", colors())
				assert.Equal(t, before, s.ResourceVersion(), "the version stays before what is lacking")
				assert.ErrorAs(t, r.State().Err, &bad)
				assert.Less(t, len(server.Requests()), 100)

				_, err = resource.List(t.Context(), metav1.ListOptions{})
				assert.ErrorAs(t, err, &bad, "somebody else's list is not shortened silently")
				_, err = resource.Get(t.Context(), "bad", metav1.GetOptions{})
				assert.ErrorAs(t, err, &bad)

				require.NoError(t, server.Delete(paint("bad", "red")))
				require.NoError(t, server.Update(paint("held", "4")))
				synctest.Wait()
				assert.Equal(t, "good 2,held 4,late 3,", colors())
				assert.Equal(t, fmt.Sprint(server.ResourceVersion()), s.ResourceVersion(), "nothing is lacking any more")
				cancel()
				require.NoError(t, <-result)
			})
		})
	}
}
