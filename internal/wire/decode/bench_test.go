package decode

import (
	gojson "encoding/json"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// So many pods a benchmark has. Those that have nothing in common must not come again, so
// run it with -benchtime 200x or less.
const (
	alikePods  = 2000
	uniquePods = 10000
)

func podBytes(tb testing.TB, format wire.Format, unique bool) [][]byte {
	n := alikePods
	if unique {
		n = uniquePods
	}
	return podBytesOf(tb, format, makePods(n, unique))
}

func podBytesOf(tb testing.TB, format wire.Format, pods []*corev1.Pod) [][]byte {
	var all [][]byte
	for _, pod := range pods {
		data, err := gojson.Marshal(pod)
		if format == wire.Protobuf {
			data, err = pod.Marshal()
		}
		require.NoError(tb, err)
		all = append(all, data)
	}
	return all
}

// contender decodes a pod in one of the ways that are compared.
type contender struct {
	name   string
	decode func([]byte) (*corev1.Pod, error)
}

// ours is this package, with options.
func ours(name string, format wire.Format, opts ...Options) func(testing.TB) contender {
	return func(tb testing.TB) contender {
		codec, err := For[*corev1.Pod](only(opts))
		require.NoError(tb, err)
		d := codec.NewDecoder()
		return contender{name, func(data []byte) (*corev1.Pod, error) { return d.Decode(format, data) }}
	}
}

// theirs is a function that decodes into a pod.
func theirs(name string, unmarshal func([]byte, *corev1.Pod) error) func(testing.TB) contender {
	return func(testing.TB) contender {
		return contender{name, func(data []byte) (*corev1.Pod, error) {
			pod := new(corev1.Pod)
			return pod, unmarshal(data, pod)
		}}
	}
}

func jsonContenders() []func(testing.TB) contender {
	return []func(testing.TB) contender{
		theirs("incumbent", func(b []byte, p *corev1.Pod) error { return utiljson.Unmarshal(b, p) }),
		theirs("encoding/json", func(b []byte, p *corev1.Pod) error { return gojson.Unmarshal(b, p) }),
		theirs("bare", func(b []byte, p *corev1.Pod) error { return json.Unmarshal(b, p) }),
		ours("plain", wire.JSON, Options{WithoutInterning: true}),
		ours("sharing", wire.JSON),
		ours("sharing,managedFields", wire.JSON, Options{SkipManagedFields: true}),
	}
}

func protobufContenders() []func(testing.TB) contender {
	return []func(testing.TB) contender{
		theirs("bare", func(b []byte, p *corev1.Pod) error { return p.Unmarshal(b) }),
		ours("plain", wire.Protobuf, Options{WithoutInterning: true}),
		ours("sharing", wire.Protobuf),
		ours("sharing,managedFields", wire.Protobuf, Options{SkipManagedFields: true}),
	}
}

func BenchmarkJSON(b *testing.B)           { benchmark(b, wire.JSON, false, jsonContenders()) }
func BenchmarkJSONUnique(b *testing.B)     { benchmark(b, wire.JSON, true, jsonContenders()) }
func BenchmarkProtobuf(b *testing.B)       { benchmark(b, wire.Protobuf, false, protobufContenders()) }
func BenchmarkProtobufUnique(b *testing.B) { benchmark(b, wire.Protobuf, true, protobufContenders()) }

func benchmark(b *testing.B, format wire.Format, unique bool, contenders []func(testing.TB) contender) {
	data := podBytes(b, format, unique)
	b.Run("turns", func(b *testing.B) { takeTurns(b, data, contenders) })
	for _, make := range contenders {
		c := make(b)
		b.Run(c.name, func(b *testing.B) {
			b.ReportMetric(heap(b, data, make(b)), "live-B/op")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := c.decode(data[i%len(data)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// takeTurns compares contenders on a machine that has other things to do: each decodes some
// pods, then the next one does, and the middle one of each one's times counts.
func takeTurns(b *testing.B, data [][]byte, contenders []func(testing.TB) contender) {
	const turn = 50
	all := make([]contender, len(contenders))
	times := make([][]time.Duration, len(contenders))
	for i := range contenders {
		all[i] = contenders[i](b)
	}
	runtime.GC()
	for at := 0; b.Loop(); at = (at + turn) % len(data) {
		for i, c := range all {
			begin := time.Now()
			for _, d := range data[at : at+turn] {
				if _, err := c.decode(d); err != nil {
					b.Fatal(err)
				}
			}
			times[i] = append(times[i], time.Since(begin)/turn)
		}
	}
	for i, c := range all {
		slices.Sort(times[i])
		b.ReportMetric(float64(times[i][len(times[i])/2].Nanoseconds())/1000, "µs-"+c.name)
	}
	b.ReportMetric(0, "ns/op")
}

// heap returns how many bytes of memory a pod takes, with its share of what is shared.
func heap(b *testing.B, data [][]byte, c contender) float64 {
	var before, after runtime.MemStats
	pods := make([]*corev1.Pod, len(data))
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i, d := range data {
		pod, err := c.decode(d)
		if err != nil {
			b.Fatal(err)
		}
		pods[i] = pod
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(pods)
	runtime.KeepAlive(c)
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(len(pods))
}
