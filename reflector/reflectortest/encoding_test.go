package reflectortest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestEnvelopesAreApimachinerys compares the documents that are put together
// here with those of the serializers, for every built-in type.
func TestEnvelopesAreApimachinerys(t *testing.T) {
	g, err := newRegistry(nil)
	require.NoError(t, err)
	binary := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	require.Greater(t, len(g.ordered), 100)
	for _, r := range g.ordered {
		var records []*record
		var objects []runtime.Object
		for i := range 2 {
			obj := r.newObject()
			obj.SetName(fmt.Sprintf("n%d", i))
			obj.SetLabels(map[string]string{"l": "v", "a": "b"})
			rec, err := newRecord(r, obj, uint64(10+i))
			require.NoError(t, err)
			records = append(records, rec)
			obj.GetObjectKind().SetGroupVersionKind(r.gvk())
			objects = append(objects, obj)
		}
		list, err := scheme.Scheme.New(r.gvk().GroupVersion().WithKind(r.Kind + "List"))
		require.NoError(t, err)
		items := make([]runtime.Object, len(objects))
		for i, rec := range records {
			items[i] = rec.object()
		}
		require.NoError(t, meta.SetList(list, items))
		accessor, err := meta.ListAccessor(list)
		require.NoError(t, err)
		accessor.SetResourceVersion("11")
		list.GetObjectKind().SetGroupVersionKind(r.gvk().GroupVersion().WithKind(r.Kind + "List"))
		for _, e := range []encoding{{}, {protobuf: true}} {
			encode := func(obj runtime.Object) []byte {
				var buf bytes.Buffer
				if e.protobuf {
					require.NoError(t, binary.Encode(obj, &buf))
				} else {
					require.NoError(t, jsonSerializer.Encode(obj, &buf))
				}
				return buf.Bytes()
			}
			require.Equal(t, encode(objects[0]), newline(e, e.appendObject(nil, records[0])), "%s", r.gvk())
			require.Equal(t, encode(list), listOf(t, e, r, records), "%s", r.gvk())
		}
	}
}

func listOf(t *testing.T, e encoding, r *resource, records []*record) []byte {
	t.Helper()
	size := 0
	for _, rec := range records {
		size += e.itemSize(rec)
	}
	env, err := e.newListEnvelope(r, metav1.ListMeta{ResourceVersion: "11"}, size)
	require.NoError(t, err)
	b := bytes.Clone(env.head)
	for _, rec := range records {
		b = env.appendItem(b, rec)
	}
	return append(b, env.tail...)
}

// TestEventFramesAreApimachinerys decodes frames with client-go's decoders.
func TestEventFramesAreApimachinerys(t *testing.T) {
	g, err := newRegistry(nil)
	require.NoError(t, err)
	r := g.byGVR[Request{Version: "v1", Resource: "configmaps"}.gvr()]
	obj := r.newObject()
	obj.SetName("a")
	rec, err := newRecord(r, obj, 7)
	require.NoError(t, err)
	for _, e := range []encoding{{}, {protobuf: true}} {
		info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), e.contentType(false))
		require.True(t, ok)
		frames := e.appendEvent(nil, watch.Added, func(dst []byte) []byte { return e.appendObject(dst, rec) })
		frames = e.appendEvent(frames, watch.Deleted, func(dst []byte) []byte { return e.appendObject(dst, rec) })
		reader := info.StreamSerializer.Framer.NewFrameReader(nopCloser{bytes.NewReader(frames)})
		decoder := streaming.NewDecoder(reader, info.StreamSerializer.Serializer)
		for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
			var event metav1.WatchEvent
			_, _, err := decoder.Decode(nil, &event)
			require.NoError(t, err)
			require.Equal(t, string(want), event.Type)
			got, _, err := scheme.Codecs.UniversalDeserializer().Decode(event.Object.Raw, nil, nil)
			require.NoError(t, err)
			require.Equal(t, "a", got.(metav1.Object).GetName())
			require.Equal(t, "7", got.(metav1.Object).GetResourceVersion())
		}
		require.NoError(t, decoder.Close())
	}
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// TestEveryBuiltinTypeIsServed fails when client-go has a type that
// builtin_resources.json lacks.
func TestEveryBuiltinTypeIsServed(t *testing.T) {
	g, err := newRegistry(nil)
	require.NoError(t, err)
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if !scheme.Scheme.Recognizes(gvk.GroupVersion().WithKind(gvk.Kind+"List")) || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		if _, ok := reflect.New(typ).Interface().(metav1.Object); !ok {
			continue // APIGroup
		}
		if gvk.Kind == "ComponentStatus" {
			continue // computed, not stored
		}
		require.NotNil(t, g.byGVK[gvk], "%s is not in builtin_resources.json", gvk)
	}
}

func TestCustomListIsWrittenAsAMap(t *testing.T) {
	g, err := newRegistry([]Resource{{Group: "g", Version: "v1", Kind: "W", Plural: "ws"}})
	require.NoError(t, err)
	r := g.byGVR[Request{Group: "g", Version: "v1", Resource: "ws"}.gvr()]
	obj := r.newObject()
	obj.SetName("a")
	rec, err := newRecord(r, obj, 7)
	require.NoError(t, err)
	b := listOf(t, encoding{}, r, []*record{rec})
	require.True(t, json.Valid(b))
	require.Equal(t, `{"apiVersion":"g/v1","items":[{"apiVersion":"g/v1","kind":"W","metadata":{"name":"a","resourceVersion":"7"}}],"kind":"WList","metadata":{"continue":"","resourceVersion":"11"}}`+"\n", string(b))
}

const shelves = `---
# A comment.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: shelves.example.com
spec:
  group: example.com
  scope: Cluster
  names: {kind: Shelf, plural: shelves, shortNames: [sh], categories: [all]}
  versions:
  - {name: v1alpha1, served: false, storage: false}
  - {name: v1beta1, served: true, storage: false}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              books:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [title]
                items: {type: object, properties: {title: {type: string}, pages: {type: integer}}}
          status: {type: object, properties: {full: {type: boolean}}}
`

type shelf struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Books []book `json:"books"`
	} `json:"spec"`
	Status struct {
		Full bool `json:"full"`
	} `json:"status"`
}

type book struct {
	Title string `json:"title"`
	Pages int    `json:"pages"`
}

func TestDefinitionIsServed(t *testing.T) {
	server := Start(t, WithDefinition([]byte(shelves), &shelf{}))
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	var found []string
	for _, version := range []string{"v1alpha1", "v1beta1", "v1"} {
		list, err := clientset.Discovery().ServerResourcesForGroupVersion("example.com/" + version)
		if version == "v1alpha1" {
			assert.True(t, apierrors.IsNotFound(err), "%v", err)
			continue
		}
		require.NoError(t, err)
		for _, r := range list.APIResources {
			assert.False(t, r.Namespaced)
			found = append(found, version+" "+r.Kind+" "+r.Name+" "+r.SingularName+" "+strings.Join(append(r.ShortNames, r.Categories...), " "))
		}
	}
	assert.Equal(t, []string{"v1beta1 Shelf shelves shelf sh all", "v1 Shelf shelves shelf sh all", "v1 Shelf shelves/status  "}, found)

	one := &shelf{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	one.Spec.Books = []book{{"Emma", 500}}
	require.NoError(t, server.Create(one))
	client, err := dynamic.NewForConfig(server.Config())
	require.NoError(t, err)
	resource := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shelves"})
	applied := []byte(`{"apiVersion":"example.com/v1","kind":"Shelf","metadata":{"name":"a"},"spec":{"books":[{"title":"Ulysses","pages":700}]},"status":{"full":true}}`)
	_, err = resource.Patch(t.Context(), "a", "application/apply-patch+yaml", applied, metav1.PatchOptions{FieldManager: "test"})
	require.NoError(t, err)
	require.NoError(t, server.Get(one))
	assert.Equal(t, []book{{"Emma", 500}, {"Ulysses", 700}}, one.Spec.Books, "merged by the schema")
	assert.False(t, one.Status.Full, "only /status changes it")
	_, err = resource.Patch(t.Context(), "a", "application/merge-patch+json", []byte(`{"status":{"full":true}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	require.NoError(t, server.Get(one))
	assert.True(t, one.Status.Full)
}

func TestInvalidDefinitionIsAnError(t *testing.T) {
	for want, manifest := range map[string]string{
		"mapping values are not allowed":       "a: b: c",
		`"Deployment"`:                         "apiVersion: apps/v1\nkind: Deployment\n",
		`the name is "shelf.example.com"`:      strings.Replace(shelves, "name: shelves.", "name: shelf.", 1),
		"the scope is \"\"":                    strings.Replace(shelves, "scope: Cluster", "", 1),
		"shelves.example.com: no version":      strings.ReplaceAll(shelves, "served: true", "served: false"),
		"needs a version, a kind and a plural": strings.Replace(shelves, "kind: Shelf, ", "", 1),
		"schema of shelves":                    strings.Replace(shelves, "type: object", "type: {}", 1),
	} {
		_, err := NewServer(WithDefinition([]byte(manifest), nil))
		assert.ErrorContains(t, err, want)
	}
}

// A test that reads the server without HTTP sees what a client decodes.
func TestObjectsWithFreeFormDataAreReadLikeAClientReadsThem(t *testing.T) {
	s := Start(t, WithResource(Resource{
		Group: "charts.example.com", Version: "v1", Kind: "Release", Plural: "releases", Namespaced: true, Prototype: &release{},
	}))
	want := map[string]any{"replicas": int64(3), "beyond 2^53": int64(9007199254740993), "ratio": 0.5}
	require.NoError(t, s.Create(&release{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Values: want}))
	got := &release{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	require.NoError(t, s.Get(got))
	assert.Equal(t, want, got.Values)
	all, err := List[*release](s, "default")
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, want, all[0].Values)
}

type release struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Values            map[string]any `json:"values"`
}
