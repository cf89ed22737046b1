package wire

import (
	"bytes"
	gojson "encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// benchObject has as many bytes as a pod usually has: 6 kB in JSON.
func benchObject(i int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("service-%d", i), GenerateName: "service-", Namespace: "team", UID: types.UID(fmt.Sprintf("%036d", i)), ResourceVersion: fmt.Sprint(i),
		Labels: map[string]string{"app.kubernetes.io/name": "service", "pod-template-hash": "123456789"},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubelet", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{` + strings.Repeat(`"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},`, 20) + `"f:phase":{}}}`),
		}},
	}}
	for c := range 20 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("main-%d", c), Image: "registry.example.com/shop/service:v1.2.3", ImagePullPolicy: "IfNotPresent",
			Env: []corev1.EnvVar{{Name: "LOG_FORMAT", Value: "json"}, {Name: "DATABASE_URL", Value: "postgres://db.example.com:5432/service"}},
		})
	}
	return pod
}

// benchItems is how many objects a body has.
const benchItems = 1000

func benchBodies(b *testing.B) (items [][]byte, watch, list []byte) {
	var w, l bytes.Buffer
	l.WriteString(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[`)
	for i := range benchItems {
		data, err := gojson.Marshal(benchObject(i))
		require.NoError(b, err)
		items = append(items, data)
		fmt.Fprintf(&w, `{"type":"MODIFIED","object":%s}`+"\n", data)
		if i > 0 {
			l.WriteByte(',')
		}
		l.Write(data)
	}
	l.WriteString("]}\n")
	return items, w.Bytes(), l.Bytes()
}

// perItem runs a function that handles all items, and reports what one takes.
func perItem(b *testing.B, bytes int, run func()) {
	b.ReportAllocs()
	b.SetBytes(int64(bytes))
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchItems), "ns/item")
}

func drain(b *testing.B, n nexter) {
	items := 0
	for {
		batch, err := n.Next()
		if err == io.EOF {
			break
		}
		require.NoError(b, err)
		items += len(batch.Frames)
		batch.Release()
	}
	require.Equal(b, benchItems, items)
}

func BenchmarkCut(b *testing.B) {
	items, watch, list := benchBodies(b)
	b.Run("watch", func(b *testing.B) {
		perItem(b, len(watch), func() { drain(b, NewWatch(bytes.NewReader(watch), JSON, 0)) })
	})
	b.Run("watch,no-lines", func(b *testing.B) {
		joined := bytes.ReplaceAll(watch, []byte("}\n{"), []byte("} {"))
		perItem(b, len(joined), func() { drain(b, NewWatch(bytes.NewReader(joined), JSON, 0)) })
	})
	b.Run("list", func(b *testing.B) {
		perItem(b, len(list), func() { drain(b, NewList(bytes.NewReader(list), JSON, 0)) })
	})
	b.Run("list,jsontext", func(b *testing.B) {
		perItem(b, len(list), func() {
			d := jsontext.NewDecoder(bytes.NewReader(list[bytes.IndexByte(list, '['):]), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
			_, err := d.ReadToken()
			for d.PeekKind() == '{' && err == nil {
				_, err = d.ReadValue()
			}
			require.NoError(b, err)
		})
	})
	pods := &corev1.PodList{}
	var events strings.Builder
	for i := range items {
		pods.Items = append(pods.Items, *benchObject(i))
		events.WriteString(protobufEvent(b, "MODIFIED", &pods.Items[i]))
	}
	body := protobufList(b, pods)
	b.Run("watch,protobuf", func(b *testing.B) {
		perItem(b, events.Len(), func() { drain(b, NewWatch(strings.NewReader(events.String()), Protobuf, 0)) })
	})
	b.Run("list,protobuf", func(b *testing.B) {
		perItem(b, len(body), func() { drain(b, NewList(strings.NewReader(body), Protobuf, 0)) })
	})
}

func BenchmarkPeek(b *testing.B) {
	items, _, _ := benchBodies(b)
	sorted := []byte(`{"apiVersion":"v1","kind":"Foo",` + string(items[0][1:]))
	message, err := benchObject(1).Marshal()
	require.NoError(b, err)
	for _, c := range []struct {
		name   string
		format Format
		object []byte
	}{{"JSON", JSON, items[0]}, {"JSON,kind", JSON, sorted}, {"protobuf", Protobuf, message}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := Peek(c.format, c.object); !ok {
					b.Fatal("not sure")
				}
			}
		})
	}
}
