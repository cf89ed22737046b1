package informer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/feed"
)

// maxCatchingUp bounds the requests of one CatchUp that run at the same time.
const maxCatchingUp = 64

// CatchUp waits until the cache has every change that the server had at some time after since, in
// each scope: see [reflector.KubernetesResourceReflector.CatchUp]. Reconcilers do that before their
// first call. Other code that works only while it leads calls it with the time at which its term
// began, before an effect that cannot be undone. With time.Now, CatchUp always asks the server.
//
// CatchUp returns an error if ctx ends earlier: give ctx a deadline. It ignores scopes that are
// dropped meanwhile or not synced yet, and caches that no reflector of this library fills: for these
// it returns nil without a proof.
func (i *Informer[T]) CatchUp(ctx context.Context, since time.Time) error {
	var mu sync.Mutex // protects errs
	var errs []error
	var running sync.WaitGroup
	free := make(chan struct{}, maxCatchingUp)
	for _, s := range i.feed.Sources() {
		running.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if err := catchUp(ctx, s, since); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

func catchUp(ctx context.Context, s *feed.Source, since time.Time) error {
	of, ok := s.Feed.(interface {
		CatchUp(ctx context.Context, since time.Time) error
	})
	if !ok || !s.IsSynced() { // a scope that was added late: none of its objects were shown
		return nil
	}
	within, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	var watching sync.WaitGroup
	defer watching.Wait()
	defer close(over)
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-s.Gone: // nil if the source cannot be dropped
			cancel(errGone)
		case <-over:
		}
	})
	err := of.CatchUp(within, since)
	if context.Cause(within) == errGone {
		return nil
	}
	return err
}

var errGone = errors.New("scope was dropped")
