package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// life is one incarnation of a member, from when it creates its lease until it gives it up
// or loses it. All fields belong to the goroutine of run, but for those that say
// otherwise.
type life struct {
	*Member
	sight   *sight
	id      string // constant
	created string // the resource version at which the lease was created; constant once it was
	keeper  *keeper
	tenures []*tenure
	ending  map[string]attempt // at the leases of others, by name
	joined  bool               // the cache has shown our own lease
	passed  bool               // nobody comes first who knows of another number of shards
	leaving bool
	err     error // what a Hold returned by itself
	// reported is what was logged of leases that no member wrote.
	reported []string
	quit     time.Time

	working context.Context    // of what is held
	halt    func()             // ends it at once; for any goroutine
	asking  context.Context    // of requests
	hush    context.CancelFunc // ends them; for any goroutine

	tasks sync.WaitGroup

	// mu protects inbox.
	mu    sync.Mutex
	inbox []func()
}

// attempt is one to end or delete a lease as it was seen, which is not repeated before a
// time.
type attempt struct {
	version string
	until   time.Time
}

func newLife(m *Member, s *sight) *life {
	l := &life{Member: m, sight: s, id: m.identity + "-" + m.suffix(), ending: map[string]attempt{}}
	l.keeper = newKeeper(l)
	l.tenures = make([]*tenure, m.group.Shards)
	for i := range l.tenures {
		l.tenures[i] = &tenure{of: l, shard: Shard{Index: i, Of: m.group.Shards}}
	}
	return l
}

// post has the goroutine of run do something. It never waits.
func (l *life) post(f func()) {
	l.mu.Lock()
	l.inbox = append(l.inbox, f)
	l.mu.Unlock()
	l.sight.poke()
}

// receive does what was posted.
func (l *life) receive() {
	l.mu.Lock()
	inbox := l.inbox
	l.inbox = nil
	l.mu.Unlock()
	for _, f := range inbox {
		f()
	}
}

// run returns nil if ctx has ended, an error that is errLost or a joinError if there is to
// be another life, and else what a Hold returned.
func (l *life) run(ctx context.Context) error {
	l.working, l.halt = controller.WithHalt(context.WithoutCancel(ctx))
	defer l.halt()
	l.asking, l.hush = context.WithCancel(context.WithoutCancel(ctx))
	defer l.hush()
	if err := l.keeper.create(ctx); err != nil {
		return err
	}
	l.created = l.keeper.current().ResourceVersion
	l.status.begin(l.id)
	kept := make(chan struct{})
	go func() { defer close(kept); l.keeper.run(l.asking) }()
	stopping := context.AfterFunc(ctx, func() {
		if halting(ctx) {
			l.halt()
		}
		l.sight.poke()
	})
	defer stopping()

	clean := l.loop(ctx)
	// Nothing is done any more. Whatever is still asked of the server has no effect.
	l.hush()
	<-kept
	l.keeper.wind()
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

// loop works until nothing is held any more, because it was to end or the lease is lost.
// It reports whether all was given up.
func (l *life) loop(ctx context.Context) (clean bool) {
	for {
		l.receive()
		if !l.leaving && (ctx.Err() != nil || l.err != nil) {
			l.leaving = true
			l.quit = l.clock.now().Add(l.deadline)
			l.keeper.leave()
		}
		v, now := l.sight.look(&l.options, l.group)
		// A process that has slept may come here before its timer does.
		l.keeper.check()
		lost := l.keeper.err() != nil
		next := l.step(v, now, lost)
		if !lost {
			next = earlier(next, l.keeper.due())
		}
		idle := !l.busy()
		if idle && lost {
			return false
		}
		if idle && l.leaving {
			if !v.named(l.id) {
				return true
			}
			if !now.Before(l.quit) {
				return false // the server does not take what is given up
			}
		}
		l.wait(next)
	}
}

// busy reports whether any shard is worked, or asked or given back.
func (l *life) busy() bool {
	for _, t := range l.tenures {
		if t.running || t.writing {
			return true
		}
	}
	return false
}

// wait waits for something to happen, at most until a time.
func (l *life) wait(until time.Time) {
	over := make(chan struct{})
	defer l.clock.after(until.Sub(l.clock.now()), func() { close(over) })()
	select {
	case <-l.sight.wake:
	case <-over:
	}
}

// step does what there is to do, and returns when to look again though nothing happens.
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
	if !l.passed {
		// Who reads less than there was when it came cannot see who came before.
		l.passed = own != nil && own.joined != "" && !newer(l.created, v.version) && !l.behind(v, own, now)
	}
	if !lost {
		target = assign(v.candidates(l.group), l.holders(v, now))
	}
	for i, t := range l.tenures {
		mine := !lost && !l.leaving && l.passed && target[i] == l.id
		if at := t.step(v, now, mine, lost); !at.IsZero() {
			next = earlier(next, at)
		}
	}
	if !lost {
		next = earlier(next, l.fence(v, now))
		l.sweep(v, now)
	}
	l.publish(v, target, lost)
	return next
}

var errEnded = errors.Join(errLost, errors.New("somebody ended or deleted it"))

// dead reports whether whoever has a shard does nothing under its claim any more.
func (l *life) dead(v *view, c claim, now time.Time) bool {
	if c.holder == "" {
		return true
	}
	if p := v.members[c.holder]; p != nil {
		return p.ended
	}
	// Its lease is gone, by a hand that ended nothing before. It cannot renew it.
	return now.Sub(l.sight.since(l.group, c.holder)) >= c.duration
}

// holders returns who holds the shards, without the dead.
func (l *life) holders(v *view, now time.Time) []string {
	holders := make([]string, len(v.claims))
	for i, c := range v.claims {
		if !l.dead(v, c, now) {
			holders[i] = c.holder
		}
	}
	return holders
}

// behind reports whether members come first that know of another number of shards: those
// who were there before. All of them can be seen; of one that has not said yet when it came
// nobody knows. Whoever comes later waits for us, so that this is asked until it is false,
// and never again.
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

// fence ends the leases of members that were not heard of for as long as their leases
// last. Each is ended as it was seen: a renewal that was not seen prevents it. It returns
// when the next one is due.
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
		if at := l.attempt(p, now); !at.IsZero() {
			next = earlier(next, at)
			continue
		}
		l.task(func(ctx context.Context) {
			lease, err := l.client.Update(ctx, freed(p.lease), metav1.UpdateOptions{})
			if err != nil {
				return // somebody was faster, or it is tried again
			}
			l.logger.Info("member has not renewed its lease: its shards are free", zap.String("incarnation", p.id))
			l.post(func() { l.sight.known[lease.Name] = lease })
		})
	}
	return next
}

// attempt notes an attempt at a lease, or returns when the next one may be made.
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

// sweep deletes the leases of members that have ended, when no shard names them any more.
// The first of those that are alive does.
func (l *life) sweep(v *view, now time.Time) {
	alive := v.alive()
	if len(alive) == 0 || alive[0].id != l.id {
		return
	}
	for _, p := range v.members {
		if !p.ended || v.named(p.id) || !l.attempt(p, now).IsZero() {
			continue
		}
		l.task(func(ctx context.Context) { _ = l.remove(ctx, p.lease) }) // it is tried again
	}
}

// remove deletes a lease as it was seen.
func (l *life) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	return l.client.Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
}

// task has something asked of the server.
func (l *life) task(f func(ctx context.Context)) {
	l.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(l.asking, l.patience())
		defer cancel()
		f(ctx)
	})
}
