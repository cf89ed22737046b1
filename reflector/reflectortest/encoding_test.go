package reflectortest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
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
