package shard

import (
	"fmt"
	"math"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

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

// newMemberLease returns the lease of an incarnation of a member.
func (l *life) newMemberLease() *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = l.group.Namespace, memberLease(l.group.Name, l.id)
	l.mark(lease)
	return lease
}

// mark writes the group and the holder into a lease.
func (l *life) mark(lease *coordinationv1.Lease) {
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
}

// claimed returns the lease of a shard with this incarnation as the holder. The lease may be nil,
// if there is none yet.
func (l *life) claimed(index int, lease *coordinationv1.Lease) *coordinationv1.Lease {
	if lease == nil {
		lease = &coordinationv1.Lease{}
		lease.Namespace, lease.Name = l.group.Namespace, shardLease(l.group.Name, index)
	} else {
		lease = lease.DeepCopy()
	}
	l.mark(lease)
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
		return fmt.Sprintf("lease %s says that it was taken %d times, so that terms do not grow: set spec.leaseTransitions to the last term that objects were written with", lease.Name, *spec.LeaseTransitions)
	}
	return ""
}

// newer reports whether a resource version came after another one. For versions that are not
// numbers it returns true.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
