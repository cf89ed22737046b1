package moving

import (
	"context"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kubereflector/kubereflector/controller/manager"
)

// runWithWebhooks runs a manager, and beside it controller-runtime's manager for webhooks alone. An
// error of either ends the other one, so that the process exits and is started again as a whole.
func runWithWebhooks(ctx context.Context, m *manager.Manager, webhooks ctrl.Manager) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return m.Run(ctx) })
	both.Go(func() error { return webhooks.Start(ctx) })
	return both.Wait()
}
