package controllerruntime

import (
	"bytes"
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// imagesSeen runs a manager of controller-runtime, whose reconciler sends the image of each pod that it
// reads, until ctx ends.
func imagesSeen(ctx context.Context, config *rest.Config, newCache cache.NewCacheFunc, images chan<- string) error {
	m, err := ctrl.NewManager(config, ctrl.Options{
		NewCache:   newCache,
		Controller: unnamed,
		Metrics:    metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(m).For(&corev1.Pod{}).Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		var p corev1.Pod
		if err := m.GetClient().Get(ctx, request.NamespacedName, &p); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		select {
		case images <- request.String() + " " + p.Spec.Containers[0].Image:
		case <-ctx.Done():
		}
		return reconcile.Result{}, nil
	}))
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

var unnamed = config.Controller{SkipNameValidation: new(true)}

// runImagesSeen runs imagesSeen while during runs.
func runImagesSeen(t *testing.T, config *rest.Config, newCache cache.NewCacheFunc, during func(images <-chan string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	images, ended := make(chan string), make(chan error, 1)
	go func() { ended <- imagesSeen(ctx, config, newCache, images) }()
	during(images)
	cancel()
	require.NoError(t, <-ended)
}

func TestProgramOfControllerRuntimeIsRecordedAndReplayed(t *testing.T) {
	for name, newCache := range map[string]cache.NewCacheFunc{"its own cache": cache.New, "ours": NewCache} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t)
			var file bytes.Buffer
			recorder := record.NewRecorder(&file)
			config := rest.CopyConfig(server.Config())
			config.Wrap(recorder.Wrap)
			initial := []string{"a/one web:1", "a/two web:1", "b/one web:1"}
			runImagesSeen(t, config, newCache, func(images <-chan string) {
				assert.ElementsMatch(t, initial, []string{<-images, <-images, <-images})
				changed := pod("a", "two")
				changed.Spec.Containers[0].Image = "web:2"
				require.NoError(t, server.Update(changed))
				assert.Equal(t, "a/two web:2", <-images)
			})
			require.NoError(t, recorder.Close())

			replay, err := record.NewReplay(&file)
			require.NoError(t, err)
			runImagesSeen(t, replay.Config(), newCache, func(images <-chan string) {
				// The change may come before the first reconciliation, which then reads the last state alone.
				last := map[string]bool{}
				for !last["a/two web:2"] || !last[initial[0]] || !last[initial[2]] {
					last[<-images] = true
				}
			})
			require.NoError(t, replay.Err())
		})
	}
}
