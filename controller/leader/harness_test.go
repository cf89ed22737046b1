package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ledFunc is a function that is led.
type ledFunc func(ctx context.Context) error

func (f ledFunc) Run(ctx context.Context) error { return f(ctx) }

// run runs a candidate until stop is called.
func run(t *testing.T, lock resourcelock.Interface, lead func(ctx context.Context) error) (stop func() error) {
	return start(t, New(lock, ledFunc(lead)))
}

// valid reports whether the lease of a context is certainly held.
func valid(ctx context.Context) error { return CheckHeld(ctx) }

// soon receives a value, and does not wait for ever.
func soon[V any](t *testing.T, from <-chan V) (v V) {
	select {
	case v = <-from:
	case <-time.After(time.Hour):
		require.FailNow(t, "nothing happens")
	}
	return v
}

func lockOf(t *testing.T, config *rest.Config, identity string) *resourcelock.LeaseLock {
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "lease"},
		Client:     clientset.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

// leaseOf returns the lease that the server has, or nil.
func leaseOf(server *reflectortest.Server) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lease"}}
	if server.Get(lease) != nil {
		return nil
	}
	return lease
}

// edit changes the lease by hand.
func edit(server *reflectortest.Server, change func(*coordinationv1.LeaseSpec)) {
	if lease := leaseOf(server); lease != nil {
		change(&lease.Spec)
		_ = server.Update(lease) // a renewal was faster
	}
}

// replace deletes the lease by hand and, unless spec is nil, creates it anew.
func replace(server *reflectortest.Server, spec *coordinationv1.LeaseSpec) {
	if lease := leaseOf(server); lease != nil {
		_ = server.Delete(lease)
	}
	if spec != nil {
		_ = server.Create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lease"}, Spec: *spec})
	}
}

// candidates are processes that compete for a lease, on networks that fail.
type candidates struct {
	*testing.T
	server *reflectortest.Server
	random *rand.Rand
	all    []*process

	// mu protects the fields below it.
	mu      sync.Mutex
	leading map[string]bool
	clashes []string
}

// process is one candidate.
type process struct {
	next   http.RoundTripper
	cut    atomic.Bool // nothing goes through
	deaf   atomic.Bool // answers are lost
	cancel context.CancelFunc
	ended  chan error
}

// RoundTrip implements [http.RoundTripper].
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	if !p.cut.Load() {
		response, err := p.next.RoundTrip(r)
		if !p.deaf.Load() {
			return response, err
		}
		if err == nil {
			_ = response.Body.Close()
		}
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// join starts a candidate. What it leads takes up to the promised time to end.
func (c *candidates) join() {
	p, name := &process{ended: make(chan error, 1)}, fmt.Sprint("c", len(c.all))
	config := c.server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { p.next = next; return p })
	drain := time.Duration(c.random.IntN(20000)) * time.Millisecond
	finish := time.Duration(c.random.IntN(2900)) * time.Millisecond
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(c.Context())
	elector := New(lockOf(c.T, config, name), ledFunc(func(ctx context.Context) error {
		c.act(name, true)
		defer c.act(name, false)
		<-ctx.Done()
		if context.Cause(ctx) != controller.ErrStopNow {
			select {
			case <-time.After(drain):
				return nil
			case <-controller.HardStopped(ctx):
			}
		}
		<-time.After(finish)
		return nil
	}))
	go func() { p.ended <- elector.Run(ctx) }()
	c.all = append(c.all, p)
}

// act notes that a candidate begins or ends to lead.
func (c *candidates) act(name string, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !leads {
		delete(c.leading, name)
		return
	}
	for other := range c.leading {
		c.clashes = append(c.clashes, fmt.Sprintf("%v: %s leads, and so does %s", time.Now(), name, other))
	}
	c.leading[name] = true
}

func (c *candidates) leaders() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.leading)
}

const pausedLease = 3 * time.Second

func pausable(led controller.Runner, lock resourcelock.Interface) *Elector {
	return New(lock, led, WithTimes(pausedLease, 1500*time.Millisecond, 500*time.Millisecond))
}

// lead leads in a process that stops itself until its parent resumes it. It prints the result of
// the first call of CheckHeld after that.
func lead(server string, stop func()) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "lease"},
		Client:     kubernetes.NewForConfigOrDie(&rest.Config{Host: server}).CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "paused"},
	}
	fmt.Println(pausable(ledFunc(func(ctx context.Context) error {
		stopped := time.Now()
		stop()
		for time.Since(stopped) < pausedLease {
			// Other threads may stop first. A timer would let the elector's timers run before
			// CheckHeld.
		}
		fmt.Println("resumed:", CheckHeld(ctx))
		<-ctx.Done()
		fmt.Println("ended:", context.Cause(ctx) == controller.ErrStopNow)
		<-time.After(time.Hour)
		return nil
	}), lock).Run(context.Background()))
}

// skewed is a lock of a process whose wall clock differs.
type skewed struct {
	resourcelock.Interface
	by  time.Duration
	cut atomic.Bool
}

func (l *skewed) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		*record = shifted(*record, -l.by)
	}
	return record, raw, err
}

func (l *skewed) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Interface.Create(ctx, shifted(record, l.by))
}

func (l *skewed) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.cut.Load() {
		return errors.New("cut off")
	}
	return l.Interface.Update(ctx, shifted(record, l.by))
}

func shifted(record resourcelock.LeaderElectionRecord, by time.Duration) resourcelock.LeaderElectionRecord {
	record.AcquireTime.Time, record.RenewTime.Time = record.AcquireTime.Add(by), record.RenewTime.Add(by)
	return record
}
