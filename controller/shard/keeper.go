package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/internal/term"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// errLost means that the lease of an incarnation is lost and never becomes valid again.
var errLost = errors.New("lease lost")

// errNotCreated means that a member could not join. Its lease may have been created, so the next
// attempt uses another incarnation.
var errNotCreated = errors.New("create the lease of a member")

// keeper keeps the lease of an incarnation. It counts time from the start of the last successful
// request: other members see the write later than that.
type keeper struct {
	of *life

	// mu protects the fields below it.
	mu      sync.Mutex
	lease   *coordinationv1.Lease // as of the last answer
	renewed time.Time             // the start of the last successful write
	leaving bool
	lost    error
	stop    func() // of the timer of the deadline

	nudged chan struct{} // a write is needed at once
}

// create creates the lease.
func (k *keeper) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.of.patience())
	defer cancel()
	begun := k.of.clock.now()
	lease, err := k.of.client.Create(ctx, k.of.marked(memberLease(k.of.group.Name, k.of.id), nil), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("%w: %w", errNotCreated, err)
	}
	k.wrote(lease, begun)
	k.nudge() // publish the version at which this member joined
	return nil
}

// wrote records a successful write, and resets the deadline.
func (k *keeper) wrote(lease *coordinationv1.Lease, begun time.Time) {
	now := k.of.clock.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost != nil {
		return // too late: an ended incarnation stays ended
	}
	k.lease, k.renewed = lease, begun
	if k.stop != nil {
		k.stop()
	}
	k.stop = k.of.clock.after(begun.Add(k.of.deadline).Sub(now), k.check) // runs even if run blocks
	k.of.status.Set(func(s *State) { s.Renewed, s.Err = begun, nil })
}

// check ends the incarnation if its deadline has passed. Somebody may set the time of day, so it does not count here.
func (k *keeper) check() {
	if late := k.of.clock.now().Sub(k.due()); late >= 0 {
		k.lose(notRenewed(k.of.deadline + late))
	}
}

func notRenewed(since time.Duration) error {
	return fmt.Errorf("%w: not renewed for %v", errLost, since.Round(time.Millisecond))
}

// due returns the deadline of the incarnation without a further renewal.
func (k *keeper) due() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.renewed.Add(k.of.deadline)
}

// valid returns an error unless the lease is certainly held.
func (k *keeper) valid() error {
	now := k.of.clock.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost != nil {
		return k.lost
	}
	if since := term.Elapsed(k.renewed, now); since >= k.of.deadline {
		return notRenewed(since)
	}
	return nil
}

// lose ends the incarnation.
func (k *keeper) lose(err error) {
	k.mu.Lock()
	first := k.lost == nil
	if first {
		k.lost = err
		k.of.hardStop() // before run sees the loss and ends the work: its cause is then ErrStopNow
	}
	k.stop()
	k.mu.Unlock()
	if first {
		k.of.endRequests()
		k.of.sight.poke()
	}
}

// stopTimer stops the timer of the deadline.
func (k *keeper) stopTimer() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop()
}

// err returns why the incarnation has ended, or nil.
func (k *keeper) err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// leave announces that this member wants no shards any more.
func (k *keeper) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.leaving {
		k.leaving = true
		k.nudge()
	}
}

func (k *keeper) nudge() {
	select {
	case k.nudged <- struct{}{}:
	default:
	}
}

// run renews the lease until ctx ends or it is lost.
func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil && k.err() == nil {
		k.of.sleep(ctx, k.of.period, k.nudged)
		if ctx.Err() != nil {
			return
		}
		begun := k.of.clock.now()
		lease, err := k.renew(ctx)
		switch {
		case err == nil:
			k.wrote(lease, begun)
			k.of.post(func() { k.of.sight.known[lease.Name] = lease })
		case errors.Is(err, errLost):
			k.lose(err)
		case ctx.Err() == nil:
			k.of.status.Set(func(s *State) { s.Err = err })
			k.of.logger.Warn("lease not renewed", zap.String("incarnation", k.of.id), zap.Error(err))
		}
	}
}

// renew writes the lease. Each write requires the last version, so a renewal cannot undo that
// another member has ended the incarnation.
func (k *keeper) renew(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, k.of.patience())
	defer cancel()
	lease, err := k.write(ctx, k.update)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: somebody deleted it", errLost)
	}
	return lease, err
}

// write calls a function that writes the lease, and once more after a conflict: either an earlier renewal
// without an answer succeeded, or the lease was ended.
func (k *keeper) write(ctx context.Context, write func(context.Context) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	lease, err := write(ctx)
	if apierrors.IsConflict(err) {
		if err = k.refresh(ctx); err == nil {
			return write(ctx)
		}
	}
	return lease, err
}

func (k *keeper) update(ctx context.Context) (*coordinationv1.Lease, error) {
	k.mu.Lock()
	held, leaving := k.lease, k.leaving
	k.mu.Unlock()
	lease := k.of.marked(held.Name, held)
	lease.Annotations[joinedAnnotation] = k.of.created
	if leaving {
		lease.Annotations[leavingAnnotation] = "true"
	}
	before := lease.ResourceVersion
	lease, err := k.of.client.Update(ctx, lease, metav1.UpdateOptions{})
	if err == nil && lease.ResourceVersion == before {
		return nil, errors.New("renewal changed nothing, so that others see none")
	}
	return lease, err
}

// refresh reads the lease.
func (k *keeper) refresh(ctx context.Context) error {
	lease, err := k.of.client.Get(ctx, k.current().Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holderOf(lease) != k.of.id {
		return fmt.Errorf("%w: somebody ended it", errLost)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lease = lease
	return nil
}

func (k *keeper) current() *coordinationv1.Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lease
}

// end gives up the lease when no work runs under it any more: all its shards are free. If that
// fails, the lease expires.
func (k *keeper) end(ctx context.Context, clean bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.of.patience())
	defer cancel()
	lease, err := k.write(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return k.of.client.Update(ctx, freed(k.current()), metav1.UpdateOptions{})
	})
	if err == nil && clean {
		err = k.of.remove(ctx, lease)
	}
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, errLost) {
		k.of.logger.Warn("lease not given up", zap.String("incarnation", k.of.id), zap.Error(err))
	}
}

// Labels and annotations of the leases.
const (
	groupLabel = "shards.kubereflector.github.io/group" // on all leases: the name of the group
	shardLabel = "shards.kubereflector.github.io/shard" // on leases of shards: the index

	ofAnnotation      = "shards.kubereflector.github.io/of"      // the number of shards that the writer knows
	joinedAnnotation  = "shards.kubereflector.github.io/joined"  // the resource version at which the member joined
	leavingAnnotation = "shards.kubereflector.github.io/leaving" // the member wants no shards any more
)

func memberLease(group, incarnation string) string { return group + "-" + incarnation }

func shardLease(group string, index int) string { return group + "-" + strconv.Itoa(index) }

// marked returns a copy of a lease with the group, and with this incarnation as the holder. The lease may
// be nil, if there is none yet.
func (l *life) marked(name string, lease *coordinationv1.Lease) *coordinationv1.Lease {
	if lease == nil {
		lease = &coordinationv1.Lease{}
		lease.Namespace, lease.Name = l.group.Namespace, name
	} else {
		lease = lease.DeepCopy()
	}
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Labels[groupLabel] = l.group.Name
	lease.Annotations[ofAnnotation] = strconv.Itoa(l.group.Shards)
	seconds := int32(l.lease / time.Second)
	// The time is for people, and makes each renewal a change. No member computes with it.
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &l.id, &seconds, &now
	return lease
}

// claimed returns the lease of a shard with this incarnation as the holder. The lease may be nil.
func (l *life) claimed(index int, lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = l.marked(shardLease(l.group.Name, index), lease)
	lease.Labels[shardLabel] = strconv.Itoa(index)
	term := int32(min(termOf(lease)+1, math.MaxInt32))
	lease.Spec.LeaseTransitions, lease.Spec.AcquireTime = &term, lease.Spec.RenewTime
	return lease
}

// freed returns a lease without a holder.
func freed(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	nobody, now := "", metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &nobody, &now
	return lease
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func termOf(lease *coordinationv1.Lease) int {
	if lease == nil || lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return int(max(*lease.Spec.LeaseTransitions, 0))
}

// durationOf returns how long a lease lasts without a renewal: the duration in the lease, if a
// member can have written it.
func durationOf(lease *coordinationv1.Lease, otherwise time.Duration) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil || *lease.Spec.LeaseDurationSeconds <= 0 {
		return otherwise
	}
	return min(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, MaxLeaseDuration)
}

// oddity returns the problem of a lease that a member cannot have written, or "".
func oddity(lease *coordinationv1.Lease) string {
	switch spec := lease.Spec; {
	case holderOf(lease) != "" && spec.LeaseDurationSeconds != nil && time.Duration(*spec.LeaseDurationSeconds)*time.Second > MaxLeaseDuration:
		return fmt.Sprintf("lease %s says that it lasts %d seconds: it counts for %v, delete it", lease.Name, *spec.LeaseDurationSeconds, MaxLeaseDuration)
	case spec.LeaseTransitions != nil && (*spec.LeaseTransitions == math.MaxInt32 || *spec.LeaseTransitions < 0):
		return fmt.Sprintf("lease %s says that it was taken %d times, so that the generation of the shard does not grow: set spec.leaseTransitions to the last generation that objects were written with", lease.Name, *spec.LeaseTransitions)
	}
	return ""
}

// newer reports whether a resource version came after another one. For versions that are not
// numbers it returns true.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
