package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/term"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// released is the duration that client-go writes into a lease that its holder gave up.
	released = 1

	// unknown is the holder that client-go sees instead of the real one, where it would take a
	// lease at once although another process may believe that it leads. That is a lease without a
	// holder that was not given up, and a lease that names this process without a write of this
	// term.
	unknown = "(unknown)"
)

// heldLock is the lock of one term. It knows since when the lease is certainly held. It ends the
// term when another holder has the lease or the lease is gone. It keeps a candidate from taking a
// lease that a former leader may still count on. Each request has a timeout of its own: without one,
// a request without an answer blocks a candidate for ever, and with a common one a candidate never
// creates a missing lease on a slow network, because that takes three requests.
type heldLock struct {
	resourcelock.Interface
	limit time.Duration // of a request
	lease time.Duration // the duration of a lease
	waits *waiting      // logs why this process does not lead

	// mu protects the fields below it.
	mu       sync.Mutex
	renewed  time.Time     // the start of the last successful write; zero if there was none
	failed   error         // why the last write since then failed; nil if none did
	acquired time.Time     // the start of this term, according to the lease
	open     bool          // a write was cancelled and may have succeeded
	life     time.Duration // how long a write certainly holds the lease
	over     *time.Timer   // the timer of life; nil before begin
	lose     func()        // ends the led member; nil before begin
	lost     error         // why the term is over; nil until then
}

// held reports whether this process ever had the lease.
func (l *heldLock) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero()
}

// unsure reports whether this process may have the lease although no write succeeded.
func (l *heldLock) unsure() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// begin calls lose when the term is over, at the latest a time of life after the start of the last
// successful write. Candidates count from the server's write, which may be long before its answer
// arrived. client-go counts from the answer.
func (l *heldLock) begin(life time.Duration, lose func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life, l.lose = life, lose
	if l.lost != nil {
		lose()
	}
	l.over = time.AfterFunc(time.Until(l.renewed.Add(life)), func() { l.end(l.expired()) })
	return func() {
		l.over.Stop()
		l.end(errors.New("the term has ended"))
	}
}

// expired returns why the lease may be lost although no other process has written it.
func (l *heldLock) expired() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := time.Since(l.renewed).Round(time.Millisecond)
	if l.failed != nil && !errors.Is(l.failed, context.DeadlineExceeded) {
		return fmt.Errorf("not renewed for %v: %w", since, l.failed)
	}
	return fmt.Errorf("not renewed for %v: the server must answer a renewal within half of the renew deadline, which is %v", since, l.limit/2)
}

// end ends the term, unless it has ended.
func (l *heldLock) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return
	}
	l.lost = why
	if l.lose != nil {
		l.lose()
	}
}

// err returns why the term is over, or nil.
func (l *heldLock) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// valid returns an error unless the lease is certainly held.
func (l *heldLock) valid(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	if since := term.Elapsed(l.renewed, now); since >= l.life {
		return fmt.Errorf("not renewed for %v", since.Round(time.Millisecond))
	}
	return nil
}

// Get implements [resourcelock.Interface].
func (l *heldLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.err(); err != nil {
		return nil, nil, err
	}
	record, raw, err := l.get(ctx)
	if l.held() {
		l.check(record, err)
		if lost := l.err(); lost != nil {
			return nil, nil, lost // not NotFound: client-go would create a lease
		}
		return record, raw, err
	}
	missing := apierrors.IsNotFound(err)
	if missing {
		if err = l.announce(ctx); err != nil {
			l.waits.refused(ctx, "create", err)
			return nil, nil, err
		}
		record, raw, err = l.get(ctx)
	}
	if err != nil {
		l.waits.refused(ctx, "read", err)
		return nil, nil, err
	}
	l.waits.answered("read")
	l.waits.answered("create")
	why := l.doubt(record)
	if missing {
		why = missingLease
	}
	l.waits.held(record, why)
	if why != "" {
		record.HolderIdentity = unknown
	}
	if record.HolderIdentity != "" {
		record.LeaseDurationSeconds = max(record.LeaseDurationSeconds, int(l.lease/time.Second))
	}
	return record, raw, nil
}

// Create implements [resourcelock.Interface]. client-go calls it if Get has found no lease, which was then deleted
// as soon as announce created it. A lease that names this process would end the wait for a former leader.
func (l *heldLock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return errors.New("the lease was deleted as soon as it was created")
}

// get reads the lease, within the limit of a request.
func (l *heldLock) get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.limit, errSlow(l.limit))
	defer cancel()
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err != nil:
		return nil, nil, slow(ctx, err)
	case record == nil:
		return nil, nil, errors.New("the lock returned no record and no error")
	}
	return record, raw, nil
}

// doubt returns why a candidate waits for a lease that client-go would take at once, or an empty
// string.
func (l *heldLock) doubt(record *resourcelock.LeaderElectionRecord) string {
	switch {
	case record.HolderIdentity == l.Identity():
		return ownLease
	case record.HolderIdentity == "" && record.LeaseDurationSeconds != released:
		return freeLease
	}
	return ""
}

// Why a candidate waits for a lease duration although the lease names no other process.
const (
	missingLease = "the lease was missing and is created: if it was deleted, a former leader that is cut off may work on for up to a lease duration"
	freeLease    = "the lease has no holder, and no leader gave it up: it is new, or was edited, and a former leader that is cut off may work on for up to a lease duration"
	ownLease     = "the lease names this process without a write of this term: an earlier term, or another process of this name, may last for up to a lease duration"
)

// errSlow is the cause of the end of a request that takes too long.
type errSlow time.Duration

func (e errSlow) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

// Is makes an errSlow a deadline: the error of the transport has the cause, and no DeadlineExceeded.
func (e errSlow) Is(target error) bool { return target == context.DeadlineExceeded }

// slow adds the cause to the error of a request that took too long.
func slow(ctx context.Context, err error) error {
	if cause, ok := context.Cause(ctx).(errSlow); ok && err != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// check ends the term if the server's answer shows that the lease is gone or has another holder.
func (l *heldLock) check(record *resourcelock.LeaderElectionRecord, err error) {
	switch {
	case apierrors.IsNotFound(err):
		l.end(errors.New("the lease was deleted"))
	case err == nil:
		if why := l.loss(record); why != nil {
			l.end(why)
		}
	}
}

// loss returns an error if a lease is not the lease of this term.
func (l *heldLock) loss(record *resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() {
		return fmt.Errorf("the lease is held by %q", record.HolderIdentity)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !record.AcquireTime.Truncate(time.Second).Equal(l.acquired.Truncate(time.Second)) {
		return errors.New("the lease was written anew")
	}
	return nil
}

// announce creates a lease without a holder. If the lease of a leader was deleted, that leader works
// on for less than a lease duration, until it reads the lease again. All candidates wait for that
// long, from the moment at which they see the new lease. The package documentation says why none of them
// takes a missing lease at once.
func (l *heldLock) announce(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.limit, errSlow(l.limit))
	defer cancel()
	now := time.Now()
	record := resourcelock.LeaderElectionRecord{LeaseDurationSeconds: int(l.lease / time.Second)}
	record.AcquireTime.Time, record.RenewTime.Time = now, now
	if err := l.Interface.Create(ctx, record); !apierrors.IsAlreadyExists(err) {
		return slow(ctx, err)
	}
	return nil // another candidate was faster
}

// Update implements [resourcelock.Interface].
func (l *heldLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.err(); err != nil {
		return err
	}
	within, cancel := context.WithTimeoutCause(ctx, l.limit, errSlow(l.limit))
	defer cancel()
	begun := time.Now()
	err := l.Interface.Update(within, record)
	if err != nil {
		err = slow(within, err)
		if l.held() {
			l.check(nil, err)
		} else {
			l.waits.refused(ctx, "update", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		// Unless it was refused, it may have been stored. release looks at the lease first.
		l.open = l.open || !apierrors.IsConflict(err)
		if l.failed == nil || ctx.Err() == nil { // a renewal that the elector gives up says less than the one before
			l.failed = err
		}
		return err
	}
	l.renewed, l.acquired, l.failed = begun, record.AcquireTime.Time, nil
	if l.over != nil && l.lost == nil {
		l.over.Reset(time.Until(begun.Add(l.life)))
	}
	return nil
}

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
