package reflector_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// objectOf is an object of any kind; an empty kind and apiVersion are left out.
func objectOf(apiVersion, kind, namespace, name string) string {
	meta := fmt.Sprintf(`"metadata":{"namespace":%q,"name":%q,"uid":"uid of %s","resourceVersion":"8"}`, namespace, name, name)
	if kind == "" {
		return "{" + meta + "}"
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s}`, apiVersion, kind, meta)
}

func listOfKind(apiVersion, kind, items string) scriptedAnswer {
	return scriptedAnswer{body: fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"8"},"items":[%s]}`, kind, apiVersion, items)}
}

// strangers are objects that a client of v1 ConfigMaps in the namespace default did not ask for.
var strangers = map[string]struct{ object, what string }{
	"another kind":      {objectOf("v1", "Secret", "default", "b"), "kind"},
	"another group":     {objectOf("example.com/v1", "ConfigMap", "default", "b"), "API group"},
	"another namespace": {objectOf("v1", "ConfigMap", "kube-system", "b"), "namespace"},
	"no namespace":      {objectOf("v1", "ConfigMap", "", "b"), "namespace"},
}

// mismatches runs do for clients of ConfigMaps of several types.
func mismatches(t *testing.T, server func() *scripted, do func(t *testing.T, server *scripted, names func() []string, errs func() []error)) {
	t.Run("generated type", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*corev1.ConfigMap](t, server(), do) })
	})
	t.Run("plain struct", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*Paint](t, server(), do) })
	})
	t.Run("struct without a kind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*Nameless](t, server(), do) })
	})
	t.Run("Unstructured", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*unstructured.Unstructured](t, server(), do) })
	})
	t.Run("metadata", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*metav1.PartialObjectMetadata](t, server(), do) })
	})
}

func mismatch[T reflector.Object](t *testing.T, server *scripted, do func(*testing.T, *scripted, func() []string, func() []error)) {
	api := opened[T](t, server, configMapResource, "default", client.WithoutProtobuf())
	var opts []reflector.Option
	if len(server.lists) > 0 {
		opts = append(opts, reflector.WithoutWatchList())
	}
	m := followed(t, api, opts...)
	synctest.Wait()
	do(t, server, m.names, m.errors)
	m.stop()
}

func assertMismatch(t *testing.T, what string, errs []error) {
	t.Helper()
	require.NotEmpty(t, errs)
	var other *client.MismatchError
	require.ErrorAs(t, errs[0], &other)
	assert.Equal(t, what, other.What)
	var failed *client.ResponseError
	require.ErrorAs(t, errs[0], &failed)
}

func TestObjectsThatWereNotAskedForAreRefused(t *testing.T) {
	good := jsonObject("a", "5", "red")
	for name, stranger := range strangers {
		t.Run(name, func(t *testing.T) {
			t.Run("list", func(t *testing.T) {
				mismatches(t, func() *scripted {
					return &scripted{lists: []scriptedAnswer{jsonList("8", good, stranger.object), jsonList("9", good)}}
				}, func(t *testing.T, _ *scripted, names func() []string, errs func() []error) {
					assert.Empty(t, names())
					assertMismatch(t, stranger.what, errs())
					<-time.After(time.Minute)
					assert.Equal(t, []string{"a"}, names(), "the server behaves again")
				})
			})
			for _, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				t.Run(string(kind), func(t *testing.T) {
					mismatches(t, func() *scripted {
						return &scripted{lists: []scriptedAnswer{jsonList("7", good)}, watches: []scriptedAnswer{{body: jsonEvent(kind, stranger.object), open: true}}}
					}, func(t *testing.T, server *scripted, names func() []string, errs func() []error) {
						assert.Equal(t, []string{"a"}, names())
						assertMismatch(t, stranger.what, errs())
						<-time.After(time.Minute)
						assert.Equal(t, "list 0, watch 7, list 7, watch 7", server.seen())
					})
				})
			}
			t.Run("watch-list", func(t *testing.T) {
				mismatches(t, func() *scripted {
					return &scripted{watches: []scriptedAnswer{{body: jsonEvent(watch.Added, good) + jsonEvent(watch.Added, stranger.object), open: true}, {body: jsonStream("9", good), open: true}}}
				}, func(t *testing.T, _ *scripted, names func() []string, errs func() []error) {
					assert.Empty(t, names())
					assertMismatch(t, stranger.what, errs())
					<-time.After(time.Minute)
					assert.Equal(t, []string{"a"}, names())
				})
			})
		})
	}
}

func TestUndecodableObjectsThatWereNotAskedForAreRefused(t *testing.T) {
	good := jsonObject("a", "5", "red") // says which kind the resource has
	for name, stranger := range strangers {
		bad := strings.TrimSuffix(stranger.object, "}") + `,"data":7}`
		for where, server := range map[string]*scripted{
			"list":       {lists: []scriptedAnswer{jsonList("8", good, bad)}},
			"watch":      {lists: []scriptedAnswer{jsonList("7", good)}, watches: []scriptedAnswer{{body: jsonEvent(watch.Added, bad), open: true}}},
			"watch-list": {watches: []scriptedAnswer{{body: jsonEvent(watch.Added, good) + jsonEvent(watch.Added, bad), open: true}}},
		} {
			t.Run(name+" in a "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mismatch[*Paint](t, server, func(t *testing.T, _ *scripted, _ func() []string, errs func() []error) {
						assertMismatch(t, stranger.what, errs())
					})
				})
			})
		}
	}
}

func TestObjectsThatServersMaySend(t *testing.T) {
	configMap, bare := objectOf("v1", "ConfigMap", "default", "a"), objectOf("", "", "default", "a")
	for name, tc := range map[string]struct {
		list      scriptedAnswer
		namespace string
	}{
		"items without a kind":              {listOfKind("v1", "ConfigMapList", bare), "default"},
		"a list and items without a kind":   {listOfKind("", "", bare), "default"},
		"a list of the kind List":           {listOfKind("v1", "List", configMap), "default"},
		"another version of the same group": {listOfKind("v2", "ConfigMapList", objectOf("v2", "ConfigMap", "default", "a")), "default"},
		"any namespace":                     {listOfKind("v1", "ConfigMapList", objectOf("v1", "ConfigMap", "kube-system", "a")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{lists: []scriptedAnswer{tc.list}}
				m := followed(t, opened[*corev1.ConfigMap](t, server, configMapResource, tc.namespace), reflector.WithoutWatchList())
				synctest.Wait()
				assert.Equal(t, []string{"a"}, m.names())
				assert.Empty(t, m.errors())
				m.stop()
			})
		})
	}
}

func TestListsOfAnotherKind(t *testing.T) {
	for name, tc := range map[string]scriptedAnswer{
		"empty":                listOfKind("v1", "SecretList", ""),
		"items without a kind": listOfKind("v1", "SecretList", objectOf("", "", "default", "b")),
		"another group":        listOfKind("example.com/v1", "ConfigMapList", ""),
		"metadata":             listOfKind("meta.k8s.io/v1", "PartialObjectMetadataList", objectOf("meta.k8s.io/v1", "PartialObjectMetadata", "default", "b")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{lists: []scriptedAnswer{tc}}
				m := followed(t, opened[*corev1.ConfigMap](t, server, configMapResource, "default"), reflector.WithoutWatchList())
				synctest.Wait()
				assert.Empty(t, m.names())
				require.NotEmpty(t, m.errors())
				var other *client.MismatchError
				assert.ErrorAs(t, m.errors()[0], &other)
				m.stop()
			})
		})
	}
}

func TestListsOfACustomResourceMayBeCalledAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "telescopes"}
		object := objectOf("example.com/v1", "Telescope", "default", "a")
		empty := listOfKind("example.com/v1", "ObservatoryList", "")
		server := &scripted{lists: []scriptedAnswer{empty}, watches: []scriptedAnswer{{body: jsonEvent(watch.Added, object), open: true}}}
		m := followed(t, opened[*Telescope](t, server, resource, "default"), reflector.WithoutWatchList())
		synctest.Wait()
		assert.Equal(t, []string{"a"}, m.names())
		assert.Empty(t, m.errors())
		m.stop()
	})
}

func TestGetOfAnotherObject(t *testing.T) {
	for what, object := range map[string]string{
		"kind": objectOf("v1", "Secret", "default", "a"), "namespace": objectOf("v1", "ConfigMap", "other", "a"), "name": objectOf("v1", "ConfigMap", "default", "b"),
	} {
		api := opened[*corev1.ConfigMap](t, &scripted{lists: []scriptedAnswer{{body: object}}}, configMapResource, "default")
		_, err := api.Get(t.Context(), "a", metav1.GetOptions{})
		assertMismatch(t, what, []error{err})
	}
}
