package series_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

func TestTextAFieldSelectorFiltersTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(newTextPod("db", "", "")))
		client := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("")
		known := &series.Map[*corev1.Pod]{}
		named := fields.OneTermEqualSelector("metadata.name", "web")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			series.NewReflector(series.Select(series.FromClient(client), named), known).Run(ctx)
		}()
		synctest.Wait()
		require.NoError(t, server.Create(newTextPod("cache", "", "")))
		require.NoError(t, server.Create(newTextPod("web", "", "")))
		synctest.Wait()
		assert.Equal(t, []string{"default/web"}, known.ListKeys())
		stop()
		<-ended
	})
}

// The selector names a field by which the server does not select. The store stays empty, as it does
// if no pod fits.
func TestTextARefusedSelectorLooksLikeNoObjects(t *testing.T) {
	byImage := fields.OneTermEqualSelector("spec.image", "nginx")
	start := func(t *testing.T) *reflectortest.Server {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(newTextPod("web", "", "node-1")))
		return server
	}
	both(t, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := start(t)
			client := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("")
			known := &series.Map[*corev1.Pod]{}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			series.NewReflector(series.Select(series.FromClient(client), byImage), known).Run(ctx)
			assert.Empty(t, known.List())
			assert.Greater(t, len(server.Requests(reflectortest.Answered(http.StatusBadRequest))), 50, "nobody was told")
		})
	}, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := start(t)
			client := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("")
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			r := reflector.New(client, store.New(store.ObjectKey[*corev1.Pod]), reflector.WithFieldSelector(byImage))
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			synctest.Wait()
			assert.True(t, apierrors.IsBadRequest(r.State().Err), "%v", r.State().Err)
			<-ended
		})
	})
}
