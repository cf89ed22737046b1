package shard

import (
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// meddler has something done before a write of certain leases is sent.
type meddler struct {
	http.RoundTripper
	leases string // what their names begin with
	meddle func()
}

func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.HasPrefix(path.Base(r.URL.Path), m.leases) {
		m.meddle()
	}
	return m.RoundTripper.RoundTrip(r)
}

// meddled starts a member between whose writes somebody meddles.
func (w *world) meddled(identity, leases string, meddle func()) *started {
	config := w.server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &meddler{next, leases, meddle} })
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(w, err)
	m, err := New(clientset.CoordinationV1(), w.group, identity, w.hold(identity))
	require.NoError(w, err)
	return w.run(m)
}

// Two that come at the same time want the same shards at first, and who was faster gives
// back what is too much.
func TestShardThatSomebodyElseWroteFirstIsTakenAsSoonAsItIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		one := w.start("one")
		synctest.Wait()
		meddled := false
		two := w.meddled("two", shardLease("foos", 0), sync.OnceFunc(func() {
			meddled = true
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: shardLease("foos", 0)}}
			assert.NoError(t, w.server.Get(lease))
			lease.Annotations["faster"] = "yes"
			assert.NoError(t, w.server.Update(lease))
		}))
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

// Others that see shards come back of a member that they count with share out what they hold.
func TestWhoGoesSaysSoBeforeItGivesAnythingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16)
		var going atomic.Bool
		asked, answer := make(chan struct{}), make(chan struct{})
		one := w.start("one")
		synctest.Wait()
		two := w.meddled("two", memberLease("foos", "two"), func() {
			if going.Load() {
				asked <- struct{}{}
				<-answer
			}
		})
		synctest.Wait()
		three := w.start("three")
		synctest.Wait()
		before, taken := w.load(), w.taken()

		going.Store(true)
		two.cancel()
		<-asked
		synctest.Wait()
		assert.Zero(t, w.load()["two"], "its work has ended")
		assert.Equal(t, taken, w.taken(), "but nobody else has begun")
		going.Store(false)
		close(answer)
		require.NoError(t, <-two.ended)
		synctest.Wait()
		assert.Equal(t, map[string]int{"one": 8, "three": 8}, w.load())
		assert.Equal(t, taken+before["two"], w.taken(), "no others move")
		require.NoError(t, one.stop())
		require.NoError(t, three.stop())
	})
}
