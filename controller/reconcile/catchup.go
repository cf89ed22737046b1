package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/term"
	"go.uber.org/zap"
)

// startSpread is how much earlier than a reconciler its informers may have begun to list, if a
// program starts all of them together.
const startSpread = 5 * time.Second

const behind = "caches may be behind the server, but calls begin: a call may see objects as they were before this process took over; does the state of the informers show why?"

// WithCatchUpTimeout sets how long Run waits at most, before its first call, until the caches have
// what the server had at the beginning: see reconcile-R10. After that Run logs the reason, and makes
// its calls with the caches as they are. The default is a minute, because client-go detects a dead
// connection in 45 seconds, and a server sends a bookmark each minute. With 0 or less, Run does not
// wait.
func WithCatchUpTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.catchUp = d })
}

// catchUp waits until the caches are current. In the term of an election, they must show what the
// server had at the beginning of the term or later: the leader before may have written until then.
// Without an election it is enough that the program has just started with consistent lists.
func (r *Reconciler[T]) catchUp(ctx context.Context, sources []source, began time.Time) {
	since, elected := term.Begun(ctx)
	if !elected {
		since = began.Add(-startSpread)
	}
	if r.options.catchUp <= 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, r.options.catchUp)
	defer cancel()
	errs := make([]error, len(sources))
	var running sync.WaitGroup
	for n, s := range sources {
		running.Go(func() { errs[n] = s.of().CatchUp(limited, since) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		r.logger.Warn(behind, zap.String("reconciler", r.name), zap.Duration("after", r.options.catchUp), zap.Error(err))
	}
}
