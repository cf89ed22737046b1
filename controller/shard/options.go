package shard

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// DefaultLeaseDuration is how long a silent member keeps its shards.
	DefaultLeaseDuration = 15 * time.Second
	// DefaultRenewDeadline is how long a member works without a renewal of its lease.
	DefaultRenewDeadline = 10 * time.Second
	// DefaultRenewPeriod is the time between two renewals.
	DefaultRenewPeriod = 2 * time.Second
	// drainTimeout is how long a [RunFunc] may take to return when the member gives up its shard. After
	// that the member tells it to end at once, by controller.HardStopContext, and reports it. The member
	// keeps the shard until the RunFunc has returned.
	drainTimeout = 15 * time.Second

	// MaxLeaseDuration is the longest lease of a member. Members treat a longer duration as this
	// one, because no member wrote it.
	MaxLeaseDuration = 10 * time.Minute

	// MaxShards is the largest number of shards: each shard is a Lease object.
	MaxShards = 4096
)

// Group has the common settings of all members. Members with another Namespace or Name form another
// group. The package documentation describes members with another number of shards.
type Group struct {
	// Namespace is the namespace of the leases.
	Namespace string
	// Name is the prefix of the leases' names. It is also the value of a label.
	Name string
	// Shards is the number of shards. About ten times the number of members keeps the load even
	// when a member comes or goes.
	Shards int
}

// Option configures a [Member].
type Option interface{ apply(*options) }

type options struct {
	lease, deadline, period time.Duration
	logger                  *zap.Logger

	// Tests replace the fields below.
	drain  time.Duration
	clock  clock
	suffix func() string
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// WithTimes sets how long a silent member keeps its shards, how long a member works without a
// renewal, and the time between two renewals. The lease must be whole seconds, at most
// [MaxLeaseDuration]. The time between deadline and lease is at least a fifth of the lease. It
// allows the work to end, and clocks to differ. The defaults are [DefaultLeaseDuration],
// [DefaultRenewDeadline] and [DefaultRenewPeriod].
func WithTimes(lease, deadline, period time.Duration) Option {
	return optionFunc(func(o *options) { o.lease, o.deadline, o.period = lease, deadline, period })
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

// clock is a member's source of time. Tests use clocks with errors.
type clock interface {
	now() time.Time
	// after calls a function on its own goroutine after d, unless stop is called first.
	after(d time.Duration, f func()) (stop func())
}

// monotonic is the clock of the machine, which no time adjustment changes.
type monotonic struct{}

func (monotonic) now() time.Time { return time.Now() }

func (monotonic) after(d time.Duration, f func()) func() {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}
