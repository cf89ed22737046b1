package shard

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// DefaultLeaseDuration is how long a member that is not heard of keeps its shards.
	DefaultLeaseDuration = 15 * time.Second
	// DefaultRenewDeadline is how long a member that cannot renew its lease goes on.
	DefaultRenewDeadline = 10 * time.Second
	// DefaultRenewPeriod is the time between two renewals.
	DefaultRenewPeriod = 2 * time.Second
	// DefaultDrainTimeout is how long a [Hold] may take until it is told to end at once.
	DefaultDrainTimeout = 15 * time.Second

	// MaxLeaseDuration is the longest lease that a member may have, and as long as any lease
	// is believed: one that says more was written by something else.
	MaxLeaseDuration = 10 * time.Minute

	// MaxShards is how many shards there may be: each is an object of its own.
	MaxShards = 4096
)

// Group is what all members have in common: one that is made with other values has
// nothing to do with them, but for the number of shards, of which see the package
// documentation.
type Group struct {
	// Namespace is that of the leases.
	Namespace string
	// Name is what the names of the leases begin with. It is a label's value as well.
	Name string
	// Shards is how many there are. Some ten times as many as there are members keep the
	// load even when one comes or goes.
	Shards int
}

// Option configures a [Member].
type Option interface{ apply(*options) }

type options struct {
	lease, deadline, period time.Duration
	drain                   time.Duration
	logger                  *zap.Logger

	// What tests replace.
	clock  clock
	suffix func() string
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// WithTimes sets how long a member that is not heard of keeps its shards, how long it goes
// on when it cannot renew its lease, and the time between two renewals. The lease is of
// whole seconds, at most [MaxLeaseDuration]. What is left between deadline and lease, which is at least a fifth of the
// lease, is for the work to end and for clocks that differ. The defaults are
// [DefaultLeaseDuration], [DefaultRenewDeadline] and [DefaultRenewPeriod].
func WithTimes(lease, deadline, period time.Duration) Option {
	return optionFunc(func(o *options) { o.lease, o.deadline, o.period = lease, deadline, period })
}

// WithDrainTimeout sets how long a [Hold] may take to return when its shard is to be given
// up. After that it is told to end at once, by controller.WithHalt, and reported; the
// shard stays with the member until it has returned. The default is
// [DefaultDrainTimeout]; with 0 or less it is told so from the beginning.
func WithDrainTimeout(d time.Duration) Option {
	return optionFunc(func(o *options) { o.drain = d })
}

// WithLogger sets the logger. The default logs nothing.
func WithLogger(logger *zap.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

func (o *options) check() error {
	switch {
	case o.lease < time.Second || o.lease > MaxLeaseDuration || o.lease != o.lease.Truncate(time.Second):
		return fmt.Errorf("a lease of %v must be of whole seconds, at most %v: see WithTimes", o.lease, MaxLeaseDuration)
	case o.deadline <= 0 || o.deadline > o.lease/5*4:
		return fmt.Errorf("a deadline of %v must leave a fifth of the lease of %v for the work to end: see WithTimes", o.deadline, o.lease)
	case o.period <= 0 || o.period > o.deadline/2:
		return fmt.Errorf("a period of %v must allow for two renewals before the deadline of %v: see WithTimes", o.period, o.deadline)
	}
	return nil
}

func (g Group) check(identity string) error {
	var errs []error
	if g.Shards < 1 || g.Shards > MaxShards {
		errs = append(errs, fmt.Errorf("%d shards: there must be 1 to %d", g.Shards, MaxShards))
	}
	if g.Namespace == "" {
		errs = append(errs, errors.New("the leases need a namespace"))
	}
	for _, bad := range validation.IsValidLabelValue(g.Name) {
		errs = append(errs, fmt.Errorf("name %q of the group: %s", g.Name, bad))
	}
	for _, bad := range validation.IsDNS1123Subdomain(memberLease(g.Name, identity+"-0123456789")) {
		errs = append(errs, fmt.Errorf("group %q and identity %q make no name of a lease: %s", g.Name, identity, bad))
	}
	return errors.Join(errs...)
}
