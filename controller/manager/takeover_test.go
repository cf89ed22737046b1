package manager

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// compete starts a process that reconciles ConfigMaps while it leads.
func compete(t *testing.T, server *reflectortest.Server, id string, work func(context.Context, *Objects[*corev1.ConfigMap], *corev1.ConfigMap) error) (stop func()) {
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, Client: clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: id},
	}
	m := New(server.Config(), WithElection(lock))
	configMaps, err := For[*corev1.ConfigMap](m, Selection{})
	require.NoError(t, err)
	Reconcile(m, "r", configMaps.Informer, func(ctx context.Context, _ store.Key, c *corev1.ConfigMap) (reconcile.Result, error) {
		return reconcile.Result{}, work(ctx, configMaps, c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() { cancel(); require.NoError(t, <-done) }
}

// Two processes make a bucket for each object. The second one takes over while its watch stands
// still, after the first one deleted the bucket of a deleted object.
func TestNewLeaderMakesNothingForAnObjectThatIsGone(t *testing.T) {
	for name, compact := range map[string]bool{"its watch goes on": false, "its watch is too old": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				var (
					mu      sync.Mutex // guards buckets
					buckets = map[string]string{}
				)
				existing := func() map[string]string {
					mu.Lock()
					defer mu.Unlock()
					return maps.Clone(buckets)
				}
				start := func(id string) (stop func()) {
					return compete(t, server, id, func(ctx context.Context, configMaps *Objects[*corev1.ConfigMap], c *corev1.ConfigMap) error {
						if c == nil {
							return nil
						}
						c, alive, err := write.Finalize(ctx, configMaps.Client, c, "example.com/bucket", func(_ context.Context, c *corev1.ConfigMap) error {
							mu.Lock()
							defer mu.Unlock()
							delete(buckets, string(c.UID))
							return nil
						})
						if err == nil && alive {
							mu.Lock()
							defer mu.Unlock()
							buckets[string(c.UID)] = id
						}
						return err
					})
				}
				stopFirst := start("first")
				<-time.After(20 * time.Second)
				// Its watch-list has a bookmark, the object, and the object with its finalizer.
				release := make(chan struct{})
				server.Inject(reflectortest.StallAfterEvents(3, release).On("watch", "configmaps").Times(1))
				stop := start("second")
				<-time.After(20 * time.Second)
				c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
				require.NoError(t, server.Create(c))
				<-time.After(time.Minute)
				require.Len(t, existing(), 1)
				require.NoError(t, server.Delete(c))
				<-time.After(time.Second)
				require.Empty(t, existing())

				stopFirst()
				<-time.After(20 * time.Second)
				if compact {
					require.NoError(t, server.Compact(server.ResourceVersion()))
				}
				close(release)
				<-time.After(10 * time.Minute)
				assert.Empty(t, existing())
				stop()
			})
		})
	}
}

// A cache that was filled a moment before a term may lack what the leader before has written since.
func TestNewLeaderAsksWhatTheServerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		idle := func(context.Context, *Objects[*corev1.ConfigMap], *corev1.ConfigMap) error { return nil }
		stopFirst := compete(t, server, "first", idle)
		<-time.After(time.Minute)
		before := len(server.Requests())
		stop := compete(t, server, "second", idle)
		<-time.After(time.Second / 10) // its cache is filled
		stopFirst()                    // and gives up the lease, which the second one takes within 4.4 seconds
		<-time.After(10 * time.Second)
		asked := 0
		for _, r := range server.Requests()[before:] {
			if r.Resource == "configmaps" && r.Query.Get("limit") == "1" {
				asked++
			}
		}
		assert.Equal(t, 1, asked)
		stop()
	})
}
