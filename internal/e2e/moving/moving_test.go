package moving

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// TestBothKeepSites has each of the two do the same.
func TestBothKeepSites(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	for name, run := range map[string]func(context.Context, *rest.Config, func(context.Context, string) error) error{
		"controller-runtime": runWithControllerRuntime,
		"kubereflector":      run,
	} {
		t.Run(name, func(t *testing.T) {
			server := reflectortest.Start(t)
			ctx, stop := context.WithCancel(t.Context())
			result := make(chan error, 1)
			var told atomic.Int32
			go func() {
				result <- run(ctx, server.Config(), func(context.Context, string) error { told.Add(1); return nil })
			}()

			named := metav1.ObjectMeta{Namespace: "default", Name: "shop"}
			site := &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"replicas": "2"}}
			site.Labels = map[string]string{"site": "yes"}
			require.NoError(t, server.Create(site))
			deployment := &appsv1.Deployment{}
			replicas := func() int32 {
				deployment = &appsv1.Deployment{ObjectMeta: named}
				if server.Get(deployment) != nil {
					return -1
				}
				return *deployment.Spec.Replicas
			}
			eventually(t, "a Deployment", func() bool { return replicas() == 2 })
			require.NoError(t, server.Get(site))
			assert.Equal(t, []string{finalizer}, site.Finalizers)
			assert.True(t, metav1.IsControlledBy(deployment, site))

			site.Data["replicas"] = "3"
			require.NoError(t, server.Update(site))
			eventually(t, "another size", func() bool { return replicas() == 3 })
			require.NoError(t, server.Delete(deployment))
			eventually(t, "a Deployment again", func() bool { return replicas() == 3 })

			require.NoError(t, server.Delete(site))
			eventually(t, "no site", func() bool { return server.Get(&corev1.ConfigMap{ObjectMeta: named}) != nil })
			if name == "kubereflector" {
				assert.EqualValues(t, 1, told.Load())
			} else { // by a cache that does not show yet what it wrote, it tells again
				assert.Positive(t, told.Load())
			}
			stop()
			require.NoError(t, <-result)
		})
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 3*time.Minute, 5*time.Millisecond, what)
}
