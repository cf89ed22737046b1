package decode

import (
	"runtime"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// smallPod is what a program declares that needs few of a pod's fields.
type smallPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Name  string `json:"name"`
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}

// BenchmarkProjection compares what a program can decode pods into.
func BenchmarkProjection(b *testing.B) {
	for name, unique := range map[string]bool{"alike": false, "unique": true} {
		pods := makePods(alikePods, unique)
		text, binary := podBytesOf(b, wire.JSON, pods), podBytesOf(b, wire.Protobuf, pods)
		b.Run(name+"/pod,protobuf", func(b *testing.B) { benchmarkOf[*corev1.Pod](b, wire.Protobuf, binary) })
		b.Run(name+"/pod,JSON", func(b *testing.B) { benchmarkOf[*corev1.Pod](b, wire.JSON, text) })
		b.Run(name+"/small,JSON", func(b *testing.B) { benchmarkOf[*smallPod](b, wire.JSON, text) })
		b.Run(name+"/small,JSON,managedFields", func(b *testing.B) { benchmarkOf[*smallPod](b, wire.JSON, text, SkipManagedFields()) })
		b.Run(name+"/metadata,JSON", func(b *testing.B) { benchmarkOf[*metav1.PartialObjectMetadata](b, wire.JSON, text) })
		b.Run(name+"/unstructured", func(b *testing.B) {
			decodeEach(b, text, func(data []byte) (any, error) {
				object := &unstructured.Unstructured{}
				return object, utiljson.Unmarshal(data, &object.Object)
			})
		})
	}
}

func benchmarkOf[T any](b *testing.B, format wire.Format, data [][]byte, opts ...Option) {
	d := decoderOf[T](b, opts...)
	decodeEach(b, data, func(data []byte) (any, error) { return d.Decode(format, data) })
}

// decodeEach measures time and garbage, and how many bytes the objects take that are kept.
func decodeEach(b *testing.B, data [][]byte, decode func([]byte) (any, error)) {
	b.ReportAllocs()
	kept := make([]any, len(data))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := 0; b.Loop(); i++ {
		object, err := decode(data[i%len(data)])
		if err != nil {
			b.Fatal(err)
		}
		kept[i%len(data)] = object
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(min(b.N, len(data))), "live-B/object")
	runtime.KeepAlive(kept)
	runtime.KeepAlive(decode)
}
