package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// ErrRunning means that Run was called while it is already running.
var ErrRunning = errors.New("member of a group of shards is running already")

// Member is one of several processes that share the shards of a [Group]. See the package
// documentation.
//
// Create one with [New], and start it with [Member.Run].
type Member struct {
	options
	client   coordination.LeaseInterface
	group    Group
	identity string
	hold     RunFunc
	running  atomic.Bool
	status   *status
	leases   atomic.Pointer[informer.Informer[*coordinationv1.Lease]] // of the latest Run
}

var _ informer.Runnable = (*Member)(nil)

// New returns a member that calls hold for each of its shards. The identity is for people, such as
// the name of the pod; New adds a suffix that makes the member unique. New returns an error for
// invalid arguments. Nothing starts before Run.
//
// The client needs to get, list, watch, create, update and delete leases in the namespace of the
// group.
func New(client coordination.LeasesGetter, group Group, identity string, hold RunFunc, opts ...Option) (*Member, error) {
	m := &Member{
		options: options{
			lease: DefaultLeaseDuration, deadline: DefaultRenewDeadline, period: DefaultRenewPeriod,
			drain: DefaultDrainTimeout, logger: zap.NewNop(), clock: monotonic{}, suffix: randomSuffix,
		},
		group: group, identity: identity, hold: hold, status: newStatus(),
	}
	for _, opt := range opts {
		opt.apply(&m.options)
	}
	if client == nil || hold == nil {
		return nil, errors.New("a member of a group of shards needs a client and something to do: pass both to New")
	}
	if err := errors.Join(group.check(identity), m.options.check()); err != nil {
		return nil, fmt.Errorf("member of a group of shards: %w", err)
	}
	m.client = client.Leases(group.Namespace)
	return m, nil
}

func randomSuffix() string { return strings.ToLower(rand.Text()[:10]) }

// Name returns the name of the group.
func (m *Member) Name() string { return m.group.Name }

// Run takes part until ctx ends, and then gives up its shards. It waits for each [RunFunc] to return.
// It tells a RunFunc to end at once after [WithDrainTimeout], or if the cause of ctx's end is
// [controller.ErrStopNow]. Other members take the shards one by one, as soon as each is free.
//
// Run returns nil, the error of a RunFunc that returned by itself, or [ErrRunning] if it is already
// running. It may be called again.
func (m *Member) Run(ctx context.Context) error {
	if !m.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer m.running.Store(false)
	defer m.status.stop()

	// The watch outlives ctx: a member that gives up its shards still needs to see the leases.
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	leases := informer.New(m.client, informer.WithName(m.group.Name+" leases"), informer.WithLogger(m.logger),
		informer.WithReflector(reflector.WithLabelSelector(labels.SelectorFromSet(labels.Set{groupLabel: m.group.Name}))))
	s := &sight{leases: leases, wake: make(chan struct{}, 1), seen: map[string]sighting{}, known: map[string]*coordinationv1.Lease{}}
	m.leases.Store(leases)
	m.status.begin("")
	sub := leases.Handle(s)
	ended := make(chan error, 1)
	go func() { ended <- leases.Run(watching) }()
	defer func() {
		end()
		sub.Close()
		<-sub.Done()
		<-ended
	}()
	select {
	case <-leases.Synced():
	case <-ctx.Done():
		return nil
	}
	return m.live(ctx, s)
}

// live runs one life after the other.
func (m *Member) live(ctx context.Context, s *sight) error {
	for ctx.Err() == nil {
		l := newLife(m, s)
		err := l.run(ctx)
		if errors.Is(err, errLost) {
			m.logger.Warn("member has lost its lease", zap.String("group", m.group.Name), zap.String("incarnation", l.id), zap.Error(err))
		} else if _, ok := errors.AsType[*joinError](err); !ok {
			return err
		} else {
			m.logger.Warn("member cannot join", zap.String("group", m.group.Name), zap.Error(err))
		}
		m.status.note(err)
		m.sleep(ctx, m.period)
	}
	return nil
}

// sleep waits, or until ctx ends.
func (o *options) sleep(ctx context.Context, d time.Duration) {
	over := make(chan struct{})
	defer o.clock.after(d, func() { close(over) })()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// patience is the timeout of one request: two requests fit into the time until the deadline.
func (o *options) patience() time.Duration { return (o.deadline - o.period) / 2 }

// hardStopped reports whether a context ended by controller.HardStopContext.
func hardStopped(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), controller.ErrStopNow)
}
