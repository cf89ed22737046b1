package shard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// life is one incarnation of a member, from the creation of its lease until the member gives it up
// or loses it. The fields belong to the goroutine of run, unless they say otherwise.
type life struct {
	*Member
	sight   *sight
	id      string // constant
	created string // the resource version at which the lease was created; constant once it was
	keeper  *keeper
	tenures []*tenure
	ending  map[string]attempt // attempts to end or delete leases of other members, by name
	joined  bool               // the cache has shown our own lease
	passed  bool               // no earlier member knows another number of shards
	waited  bool               // the log says that this life waits for earlier members
	leaving bool
	err     error // the error of a RunFunc that returned by itself
	// reported has the logged problems of leases that no member wrote.
	reported []string
	quit     time.Time
	requests int // the number of tasks that run

	working     context.Context    // the context of all RunFuncs
	hardStop    func()             // ends it at once; for any goroutine
	asking      context.Context    // the context of requests
	endRequests context.CancelFunc // ends it; for any goroutine

	tasks sync.WaitGroup

	// mu protects inbox.
	mu    sync.Mutex
	inbox []func()
}

// attempt is an attempt to end or delete one version of a lease. It is not repeated before until.
type attempt struct {
	version string
	until   time.Time
}

func newLife(m *Member, s *sight) *life {
	l := &life{Member: m, sight: s, id: m.identity + "-" + m.suffix(), ending: map[string]attempt{}}
	l.keeper = &keeper{of: l, nudged: make(chan struct{}, 1)}
	l.tenures = make([]*tenure, m.group.Shards)
	for i := range l.tenures {
		l.tenures[i] = &tenure{of: l, shard: Shard{Index: i, Of: m.group.Shards}}
	}
	return l
}

// post passes a function to the goroutine of run. It never waits.
func (l *life) post(f func()) {
	l.mu.Lock()
	l.inbox = append(l.inbox, f)
	l.mu.Unlock()
	l.sight.poke()
}

// receive runs the posted functions.
func (l *life) receive() {
	l.mu.Lock()
	inbox := l.inbox
	l.inbox = nil
	l.mu.Unlock()
	for _, f := range inbox {
		f()
	}
}

// run returns nil if ctx has ended. It returns an errLost or an errNotCreated if another life should
// follow. Otherwise it returns the error of a RunFunc.
func (l *life) run(ctx context.Context) error {
	l.working, l.hardStop = controller.HardStopContext(context.WithoutCancel(ctx))
	defer l.hardStop()
	l.asking, l.endRequests = context.WithCancel(context.WithoutCancel(ctx))
	defer l.endRequests()
	if err := l.keeper.create(ctx); err != nil {
		return err
	}
	l.created = l.keeper.current().ResourceVersion
	l.status.Set(func(s *State) { s.Incarnation, s.Phase, s.Err = l.id, Joining, nil })
	kept := make(chan struct{})
	go func() { defer close(kept); l.keeper.run(l.asking) }()
	stopping := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), controller.ErrStopNow) {
			l.hardStop()
		}
		l.sight.poke()
	})
	defer stopping()

	clean := l.loop(ctx)
	// All work has ended. Requests that are still running have no effect.
	l.endRequests()
	<-kept
	l.keeper.stopTimer()
	l.tasks.Wait()
	l.receive()
	l.keeper.end(ctx, clean)
	if l.err != nil {
		return l.err
	}
	if ctx.Err() != nil {
		return nil
	}
	return l.keeper.err()
}

// loop works until no shard is held any more, because the life had to end or the lease is lost. It
// reports whether all shards were given up.
func (l *life) loop(ctx context.Context) (clean bool) {
	for {
		l.receive()
		if !l.leaving && (ctx.Err() != nil || l.err != nil) {
			l.leaving = true
			l.quit = l.clock.now().Add(l.deadline)
			l.keeper.leave()
		}
		v, now := l.sight.look(&l.options, l.group)
		// A process that was paused may get here before its timer fires.
		l.keeper.check()
		lost := l.keeper.err() != nil
		next := l.step(v, now, lost)
		if !lost {
			next = earlier(next, l.keeper.due())
		}
		idle := !slices.ContainsFunc(l.tenures, func(t *tenure) bool { return t.running || t.writing })
		if idle && lost {
			return false
		}
		if idle && l.leaving {
			if !v.named(l.id) {
				return true
			}
			if !now.Before(l.quit) {
				return false // the server does not accept the writes
			}
		}
		l.sleep(context.Background(), next.Sub(l.clock.now()), l.sight.wake)
	}
}

// step takes the next steps for all shards, and returns when to look again without a change.
func (l *life) step(v *view, now time.Time, lost bool) (next time.Time) {
	next = now.Add(l.lease)
	own := v.members[l.id]
	if own != nil {
		l.joined = true
	}
	if !lost && l.joined && (own == nil || own.ended) {
		l.keeper.lose(errEnded)
		lost = true
	}
	target := make([]string, l.group.Shards)
	// A member whose view is older than its own join cannot see who joined before.
	if !l.passed && own != nil && own.joined != "" && !newer(l.created, v.version) {
		l.passed = !l.behind(v, own, now)
		l.reportWait(v)
	}
	if !lost {
		target = assign(v.candidates(l.group), l.holders(v, now))
	}
	if !lost {
		next = earlier(next, l.fence(v, now)) // before this member takes shards, which may need all requests
	}
	for i, t := range l.tenures {
		mine := !lost && !l.leaving && l.passed && target[i] == l.id
		if at := t.step(v, now, mine, lost); !at.IsZero() {
			next = earlier(next, at)
		}
	}
	if !lost {
		l.sweep(v, now)
	}
	l.publish(v, target, lost)
	return next
}

var errEnded = errors.Join(errLost, errors.New("somebody ended or deleted it"))

// dead reports whether the holder of a shard no longer works under its claim.
func (l *life) dead(v *view, c claim, now time.Time) bool {
	if c.holder == "" {
		return true
	}
	if p := v.members[c.holder]; p != nil {
		return p.ended
	}
	// The holder's lease was deleted by hand and not ended before. The holder cannot renew it.
	return now.Sub(l.sight.since(l.group, c.holder)) >= c.duration
}

// holders returns the holders of the shards, without dead ones.
func (l *life) holders(v *view, now time.Time) []string {
	holders := make([]string, len(v.claims))
	for i, c := range v.claims {
		if !l.dead(v, c, now) {
			holders[i] = c.holder
		}
	}
	return holders
}

// behind reports whether an earlier member knows another number of shards. All earlier members are
// visible. A member that has not published its join yet may be earlier. Members that join later
// wait for this one. So step calls behind until it returns false, and never again.
func (l *life) behind(v *view, own *peer, now time.Time) bool {
	if v.behind(own) {
		return true
	}
	for _, p := range v.alive() {
		if p.of != own.of && p.joined == "" {
			return true
		}
	}
	for _, c := range v.strange {
		if !l.dead(v, c, now) {
			return true
		}
	}
	return false
}

// fence ends the leases of members without a visible renewal for the duration of their leases. Each
// write requires the version that this member saw, so an unseen renewal prevents it. fence returns
// when the next lease is due.
func (l *life) fence(v *view, now time.Time) (next time.Time) {
	next = now.Add(l.lease)
	for _, p := range v.alive() {
		if p.id == l.id {
			continue
		}
		if due := l.sight.since(l.group, p.id).Add(p.duration); now.Before(due) {
			next = earlier(next, due)
			continue
		}
		if l.busy() {
			break
		}
		if at := l.attempt(p, now); !at.IsZero() {
			next = earlier(next, at)
			continue
		}
		l.task(func(ctx context.Context) {
			lease, err := l.client.Update(ctx, freed(p.lease), metav1.UpdateOptions{})
			if err != nil {
				return // another member was faster, or the next loop retries
			}
			l.logger.Info("member has not renewed its lease: its shards are free", zap.String("incarnation", p.id))
			l.post(func() { l.sight.known[lease.Name] = lease })
		})
	}
	return next
}

// attempt records an attempt on a lease, or returns when the next one may be made.
func (l *life) attempt(p *peer, now time.Time) (not time.Time) {
	if last := l.ending[p.lease.Name]; last.version == p.lease.ResourceVersion && now.Before(last.until) {
		return last.until
	}
	for name, last := range l.ending {
		if !now.Before(last.until) {
			delete(l.ending, name)
		}
	}
	l.ending[p.lease.Name] = attempt{p.lease.ResourceVersion, now.Add(l.patience() + l.period)}
	return time.Time{}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sweep deletes the leases of ended members that no shard names any more. Only the first living
// member does so.
func (l *life) sweep(v *view, now time.Time) {
	alive := v.alive()
	if len(alive) == 0 || alive[0].id != l.id {
		return
	}
	for _, p := range v.members {
		if !p.ended || v.named(p.id) || l.busy() || !l.attempt(p, now).IsZero() {
			continue
		}
		l.task(func(ctx context.Context) { _ = l.remove(ctx, p.lease) }) // the next loop retries
	}
}

// remove deletes one version of a lease.
func (l *life) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	return l.client.Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
}

// maxRequests is how many requests run at the same time, beside the renewal. A client that may send 5 requests a
// second, as client-go's does by default, gives each request a place in a queue. The renewal must find one within
// its timeout, so a member that takes hundreds of shards at once would lose its lease.
const maxRequests = 8

// busy reports whether no further task may begin. The end of a task wakes the loop.
func (l *life) busy() bool { return l.requests >= maxRequests }

// task runs a request to the server.
func (l *life) task(f func(ctx context.Context)) {
	l.requests++
	l.tasks.Go(func() {
		defer l.post(func() { l.requests-- })
		ctx, cancel := context.WithTimeout(l.asking, l.patience())
		defer cancel()
		f(ctx)
	})
}
