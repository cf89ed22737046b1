package shard

import (
	"net/http"
	"path"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// meddler has something done before the first write of a lease is sent.
type meddler struct {
	http.RoundTripper
	lease  string
	meddle func()
}

func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && path.Base(r.URL.Path) == m.lease {
		m.meddle()
	}
	return m.RoundTripper.RoundTrip(r)
}

// Two that come at the same time want the same shards at first, and who was faster gives
// back what is too much.
func TestShardThatSomebodyElseWroteFirstIsTakenAsSoonAsItIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		one := w.start("one")
		synctest.Wait()
		meddled := false
		config := w.server.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &meddler{next, shardLease("foos", 0), sync.OnceFunc(func() {
				meddled = true
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: shardLease("foos", 0)}}
				assert.NoError(t, w.server.Get(lease))
				lease.Annotations["faster"] = "yes"
				assert.NoError(t, w.server.Update(lease))
			})}
		})
		clientset, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		m, err := New(clientset.CoordinationV1(), w.group, "two", w.hold("two"))
		require.NoError(t, err)
		two := w.run(m)
		synctest.Wait()
		before := time.Now()
		require.NoError(t, one.stop())
		synctest.Wait()
		assert.Equal(t, map[string]int{"two": 1}, w.load())
		assert.True(t, meddled)
		assert.Zero(t, time.Since(before))
		require.NoError(t, two.stop())
	})
}
