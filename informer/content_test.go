package informer

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// These tests hold store-S9 from the server to the handlers: a definition gets a default, or
// another conversion, and the server shows its objects differently under the same versions.

// sized is a type of a program, as for a custom resource.
type sized struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

// shown is a transformed object without a version of its own.
type shown struct{ namespace, name, value string }

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// showsDifferently makes the server show the object a with another value.
func showsDifferently(t *testing.T, server *reflectortest.Server, value string) {
	t.Helper()
	require.NoError(t, server.Convert("configmaps", func(object metav1.Object) {
		if c := object.(*corev1.ConfigMap); c.Name == "a" {
			c.Data["value"] = value
			c.Annotations = map[string]string{"value": value} // for caches of metadata
		}
	}))
}

// follows runs an informer against a server that twice shows an object differently, and once lists
// the same again.
func follows[T any](t *testing.T, make func(*testing.T, *rest.Config, ...Option) *Informer[T], value func(T) string) {
	for name, opts := range map[string][]Option{
		"by a watch-list": nil,
		"by a list":       {WithReflector(reflector.WithoutWatchList())},
		"by pages":        {WithReflector(reflector.WithoutWatchList(), reflector.WithPageSize(1))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				for _, name := range []string{"a", "b", "c"} {
					require.NoError(t, server.Create(configMap(name, "1")))
				}
				showsDifferently(t, server, "1")
				i := make(t, server.Config(), opts...)
				var d diary
				i.Handle(HandlerFunc[T](func(_ context.Context, e eventqueue.Event[T]) error {
					if !e.Initial {
						d.write("%v %s %s to %s", e.Type, e.Key.Name, value(e.Prior), value(e.Object))
					}
					return nil
				}))
				stop := start(t, i)
				require.NoError(t, i.WaitForSync(t.Context()))
				for n, want := range []string{"2", "2", "3"} {
					showsDifferently(t, server, want)
					<-time.After(2 * time.Minute)
					synctest.Wait()
					held, _ := i.Cache().Get(store.Key{Namespace: "default", Name: "a"})
					assert.Equal(t, want, value(held), "relist %d", n+1)
				}
				assert.Equal(t, []string{"Modification a 1 to 2", "Modification a 2 to 3"}, d.read())
				require.NoError(t, i.Ready())
				require.NoError(t, stop())
			})
		})
	}
}

func valueOf(c *corev1.ConfigMap) string { return c.Data["value"] }

func annotated(object metav1.Object) string { return object.GetAnnotations()["value"] }

func ofResource[T reflector.Object](opts ...client.ResourceOption) func(*testing.T, *rest.Config, ...Option) *Informer[T] {
	return func(t *testing.T, config *rest.Config, more ...Option) *Informer[T] {
		resource, err := client.ForResource[T](config, configMaps, "", opts...)
		require.NoError(t, err)
		return New(resource, more...)
	}
}

func TestCachesFollowObjectsThatChangeUnderTheirVersions(t *testing.T) {
	t.Run("typed, protobuf", func(t *testing.T) { follows(t, ofResource[*corev1.ConfigMap](), valueOf) })
	t.Run("typed, JSON", func(t *testing.T) {
		follows(t, ofResource[*corev1.ConfigMap](client.WithoutProtobuf(), client.WithoutManagedFields()), valueOf)
	})
	t.Run("a type of the program", func(t *testing.T) {
		follows(t, ofResource[*sized](), func(s *sized) string { return s.Data["value"] })
	})
	t.Run("unstructured", func(t *testing.T) {
		follows(t, ofResource[*unstructured.Unstructured](), func(u *unstructured.Unstructured) string {
			value, _, _ := unstructured.NestedString(u.Object, "data", "value")
			return value
		})
	})
	t.Run("only metadata", func(t *testing.T) {
		follows(t, ofResource[*metav1.PartialObjectMetadata](), func(m *metav1.PartialObjectMetadata) string { return annotated(m) })
	})
	t.Run("a generated client", func(t *testing.T) {
		follows(t, func(t *testing.T, config *rest.Config, opts ...Option) *Informer[*corev1.ConfigMap] {
			return New(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), opts...)
		}, valueOf)
	})
	t.Run("a dynamic client", func(t *testing.T) {
		follows(t, func(_ *testing.T, config *rest.Config, opts ...Option) *Informer[*unstructured.Unstructured] {
			return New(client.Dynamic(dynamic.NewForConfigOrDie(config).Resource(configMaps)), opts...)
		}, func(u *unstructured.Unstructured) string {
			value, _, _ := unstructured.NestedString(u.Object, "data", "value")
			return value
		})
	})
	t.Run("a metadata client", func(t *testing.T) {
		follows(t, func(_ *testing.T, config *rest.Config, opts ...Option) *Informer[Metadata[corev1.ConfigMap]] {
			return NewMetadata[corev1.ConfigMap](metadata.NewForConfigOrDie(config).Resource(configMaps), opts...)
		}, func(m Metadata[corev1.ConfigMap]) string {
			if m.PartialObjectMetadata == nil {
				return ""
			}
			return annotated(m)
		})
	})
	t.Run("transformed", func(t *testing.T) {
		transformed := func(c *corev1.ConfigMap) (shown, error) {
			return shown{c.Namespace, c.Name, c.Data["value"]}, nil
		}
		keyOf := func(s shown) (store.Key, error) { return store.Key{Namespace: s.namespace, Name: s.name}, nil }
		follows(t, func(t *testing.T, config *rest.Config, opts ...Option) *Informer[shown] {
			resource, err := client.For[*corev1.ConfigMap](config)
			require.NoError(t, err)
			return NewTransformed(resource, transformed, keyOf, opts...)
		}, func(s shown) string { return s.value })
	})
}

// A transform may be costly, so it runs again only for objects whose bytes changed.
func TestTransformRunsAgainOnlyForOtherBytes(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithReflector(reflector.WithoutWatchList())}} {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			for n := range 20 {
				require.NoError(t, server.Create(configMap(fmt.Sprint("b", n), "1")))
			}
			require.NoError(t, server.Create(configMap("a", "1")))
			resource, err := client.For[*corev1.ConfigMap](server.Config())
			require.NoError(t, err)
			calls := make(chan string, 100)
			i := NewTransformed(resource, func(c *corev1.ConfigMap) (shown, error) {
				calls <- c.Name
				return shown{c.Namespace, c.Name, c.Data["value"]}, nil
			}, func(s shown) (store.Key, error) { return store.Key{Namespace: s.namespace, Name: s.name}, nil }, opts...)
			stop := start(t, i)
			require.NoError(t, i.WaitForSync(t.Context()))
			require.Len(t, calls, 21)
			for range 21 {
				<-calls
			}
			showsDifferently(t, server, "2")
			<-time.After(2 * time.Minute)
			synctest.Wait()
			require.Len(t, calls, 1)
			assert.Equal(t, "a", <-calls)
			require.NoError(t, stop())
		})
	}
}
