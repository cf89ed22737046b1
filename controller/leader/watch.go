package leader

import (
	"context"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// maxPause is the longest time between two attempts to watch a lease.
	maxPause = time.Minute

	// watchTimeout is how long a server keeps a watch open.
	watchTimeout = 10 * time.Minute
)

// watchLease watches the lease of a term until stop is called. A watch ends the term sooner, and is
// no condition of it: without one, renewals show the same.
func (e *Elector) watchLease(ctx context.Context, lock *heldLock) (stop func()) {
	of, ok := e.lock.(*resourcelock.LeaseLock)
	if !ok {
		return func() {} // there is no client for a watch
	}
	w := &leaseWatch{lock: lock, leases: of.Client.Leases(of.LeaseMeta.Namespace), name: of.LeaseMeta.Name}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause := e.retry; ctx.Err() == nil; pause = min(2*pause, maxPause) {
			err := w.watch(ctx)
			if err == nil {
				pause, e.unwatched = e.retry, false
			} else if !e.unwatched && ctx.Err() == nil {
				e.unwatched = true
				e.logger.Warn("lease not watched: its deletion ends the term at the next renewal", zap.String("lease", e.lock.Describe()), zap.Error(err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// leaseWatch watches one lease during a term. It has its own requests, because a
// [resourcelock.LeaseLock] permits one request at a time.
type leaseWatch struct {
	lock   *heldLock
	leases coordinationclient.LeaseInterface
	name   string
}

// watch opens a watch and follows it to its end. It returns an error if no watch was opened.
func (w *leaseWatch) watch(ctx context.Context) error {
	timeout := int64(watchTimeout / time.Second)
	stream, err := w.leases.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String(), TimeoutSeconds: &timeout,
	})
	if err != nil {
		return err
	}
	defer stream.Stop()
	w.check(ctx) // a watch does not show that the lease was deleted before
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-stream.ResultChan():
			if !ok || event.Type == watch.Error {
				return nil
			}
			if lease, ok := event.Object.(*coordinationv1.Lease); !ok || event.Type == watch.Deleted || w.lock.loss(recordOf(lease)) != nil {
				w.check(ctx)
			}
		}
	}
}

// check reads the lease, because the cache behind a watch may be late. It ends the term if the
// lease is lost.
func (w *leaseWatch) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.lock.limit)
	defer cancel()
	lease, err := w.leases.Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		w.lock.check(nil, err)
		return
	}
	w.lock.check(recordOf(lease), nil)
}

func recordOf(lease *coordinationv1.Lease) *resourcelock.LeaderElectionRecord {
	return resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
}
