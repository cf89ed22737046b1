package persist

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubereflector/kubereflector/store"
)

const benchObjects = 20_000

func benchStore(b *testing.B, path string, codec Codec[*corev1.ConfigMap]) *Store[*corev1.ConfigMap] {
	b.Helper()
	s, err := Open(path, store.ObjectKey[*corev1.ConfigMap], Options[*corev1.ConfigMap]{Codec: codec})
	require.NoError(b, err)
	return s
}

func benchObject(n, version int) *corev1.ConfigMap {
	c := configMap(fmt.Sprintf("%06d", n), version)
	c.Labels = map[string]string{"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": "store"}
	c.Data["filling"] = strings.Repeat("x", 1<<10)
	return c
}

func filled(b *testing.B, path string, codec Codec[*corev1.ConfigMap]) {
	b.Helper()
	all := make([]*corev1.ConfigMap, benchObjects)
	for n := range all {
		all[n] = benchObject(n, n+1)
	}
	s := benchStore(b, path, codec)
	require.NoError(b, s.Replace(all, fmt.Sprint(benchObjects)))
	require.NoError(b, s.Close())
}

// What a process pays before it can read what the last one held.
func BenchmarkOpen(b *testing.B) {
	protobuf, _ := Protobuf[*corev1.ConfigMap]()
	for _, codec := range []Codec[*corev1.ConfigMap]{protobuf, JSON[*corev1.ConfigMap]()} {
		b.Run(codec.Name(), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "store")
			filled(b, path, codec)
			for b.Loop() {
				require.NoError(b, benchStore(b, path, codec).Close())
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/benchObjects, "µs/object")
		})
	}
}

// The cost of a change for its writer, and for the writer of the file.
func BenchmarkUpdate(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store")
	filled(b, path, nil)
	s := benchStore(b, path, nil)
	defer s.Close()
	b.Run("commit", func(b *testing.B) {
		n := benchObjects
		for b.Loop() {
			n++
			require.NoError(b, s.cache.Update(benchObject(n%benchObjects, n)))
		}
		require.NoError(b, s.Flush())
	})
	b.Run("write 1000", func(b *testing.B) {
		n := benchObjects
		for b.Loop() {
			for range 1000 {
				n++
				require.NoError(b, s.cache.Update(benchObject(n*7919%benchObjects, n)))
			}
			require.NoError(b, s.Flush())
		}
	})
}
