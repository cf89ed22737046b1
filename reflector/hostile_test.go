package reflector_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestHostileServerCostsLittleAndChangesNothing(t *testing.T) {
	for _, row := range hostileRows() {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &hostile{row: row}
				limit := row.limit
				if limit == 0 {
					limit = 1 << 20
				}
				config := &rest.Config{Host: "http://apiserver", Transport: server, BearerToken: bearerToken, QPS: -1}
				resource := openedAt[*corev1.ConfigMap](t, config, configMapResource, "default", client.WithMaxObjectBytes(limit), client.WithoutProtobuf())
				before := liveHeap()
				m := followedFrom(t, resource, "7", []*corev1.ConfigMap{heldObject()}, reflector.WithoutWatchList())
				<-time.After(time.Duration(orElse(int64(row.minutes), 10)) * time.Minute)
				assertRow(t, row, server, m)
				assert.LessOrEqual(t, liveHeap()-before, orElse(row.heap, 16<<20), "bytes of live heap")

				server.behave()
				<-time.After(25 * time.Minute)
				if !row.fine {
					assert.Subset(t, m.names(), []string{"kept", "new"}, "after the server behaves again")
				}
				assert.NoError(t, m.of.State().Err)
				m.stop()
			})
		})
	}
}

func heldObject() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept", UID: "uid of kept", ResourceVersion: "7"}}
}

func assertRow(t *testing.T, row hostileRow, server *hostile, m *follower[*corev1.ConfigMap]) {
	t.Helper()
	requests, read, elsewhere := server.measured()
	assert.LessOrEqual(t, requests, int(orElse(int64(row.requests), 120)), "requests")
	assert.LessOrEqual(t, read, orElse(row.bytes, 128<<20), "bytes read")
	assert.Zero(t, elsewhere, "requests to another host")
	assert.Contains(t, m.names(), "kept")
	assertBounded(t, m)
	for _, text := range m.texts() {
		assert.NotContains(t, text, objectBytes)
		assert.NotContains(t, text, bearerToken)
	}
	if row.fine {
		return
	}
	assert.Len(t, m.names(), 1)
	require.NotEmpty(t, m.errors())
	text := m.errors()[0].Error()
	assert.Contains(t, text, row.says)
	if row.local {
		assert.Contains(t, text, "ConfigMap")
	} else {
		assert.Contains(t, text, "http://apiserver/api/v1/namespaces/default/configmaps")
	}
}

func orElse(n, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return n
}

// liveHeap returns the bytes that are live after a collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
