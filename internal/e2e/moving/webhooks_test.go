package moving

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestWebhooksEndWithTheManager(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	failed := errors.New("port in use")
	for name, test := range map[string]struct {
		fails bool
		want  error
	}{"a failure of the webhooks": {true, failed}, "the end of the context": {false, nil}} {
		t.Run(name, func(t *testing.T) {
			server := reflectortest.Start(t)
			m := manager.New(server.Config())
			maps, err := manager.Informer[*corev1.ConfigMap](m, manager.Selection{})
			require.NoError(t, err)
			webhooks, err := ctrl.NewManager(server.Config(), ctrl.Options{Metrics: metrics.Options{BindAddress: "0"}})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			started := make(chan struct{})
			require.NoError(t, webhooks.Add(crmanager.RunnableFunc(func(ctx context.Context) error { // in the place of a webhook server
				close(started)
				<-maps.Synced()
				if test.fails {
					return failed
				}
				<-ctx.Done()
				return nil
			})))
			result := make(chan error, 1)
			go func() { result <- runWithWebhooks(ctx, m, webhooks) }()
			<-started
			<-maps.Synced()
			if !test.fails {
				stop()
			}
			assert.ErrorIs(t, <-result, test.want)
			<-maps.Stopped()
		})
	}
}
