package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/internal/term"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tenure is the state of one shard in one incarnation. All fields belong to the goroutine of its
// life.
type tenure struct {
	of    *life
	shard Shard

	running  bool   // the RunFunc has not returned
	ending   bool   // the RunFunc was told to end
	lost     bool   // it was told so because the member's lease is lost
	overdue  bool   // the RunFunc did not end in time
	version  string // of the lease when the RunFunc began
	give     context.CancelCauseFunc
	hardStop func()
	stop     func() // of the timer of end; nil if there is none

	writing bool // a request is running
	// given is the version of the lease that this member tried to give back. The result of that
	// write is unknown, and it may still succeed. That claim is never worked on again.
	given string
	tried string    // the version of the lease at the last request
	retry time.Time // when the next one at that version may be made
}

// errGiven is the cause of a RunFunc's context when the shard moves to another member.
var errGiven = errors.New("shard is given to another member")

// step takes the next step for the shard. It returns when to run again without a change; zero means
// never.
func (t *tenure) step(v *view, now time.Time, wanted, lost bool) (again time.Time) {
	c := v.claims[t.shard.Index]
	mine := c.holder == t.of.id
	switch {
	case t.running:
		switch {
		case lost && !t.lost:
			t.lost = true
			t.end(errLost, t.of.lease-t.of.deadline)
		case !mine && c.version() != t.version && !t.ending:
			// The lease was changed by hand.
			t.of.logger.Error("shard was taken away", zap.Stringer("shard", t.shard), zap.String("holder", c.holder))
			t.end(errGiven, t.of.drain)
			t.hardStop()
		case !wanted && !t.ending:
			t.end(errGiven, t.of.drain)
		}
	case lost || t.writing:
	case mine && wanted && t.given != c.version():
		t.begin(c)
	case t.of.busy():
	case c.version() == t.tried && now.Before(t.retry):
		return t.retry
	case mine && t.of.leaving && t.of.keeper.current().Annotations[leavingAnnotation] == "":
		// Other members must see the announcement first. Otherwise they count this member, and move
		// their own shards when they see that it has fewer. leave announces it at once.
	case mine:
		t.given = c.version()
		t.write("release", c, now, func(ctx context.Context) (*coordinationv1.Lease, error) {
			return t.of.client.Update(ctx, freed(c.lease), metav1.UpdateOptions{})
		})
	case wanted && t.of.dead(v, c, now):
		claimed := t.of.claimed(t.shard.Index, c.lease)
		t.write("take", c, now, func(ctx context.Context) (*coordinationv1.Lease, error) {
			if c.lease == nil {
				return t.of.client.Create(ctx, claimed, metav1.CreateOptions{})
			}
			return t.of.client.Update(ctx, claimed, metav1.UpdateOptions{})
		})
	case wanted && c.holder != "" && v.members[c.holder] == nil:
		return t.of.sight.since(t.of.group, c.holder).Add(c.duration)
	}
	return time.Time{}
}

// write writes the lease of the shard. The member sees the result in the lease; until then it does
// not retry too often. A changed lease is retried at once: the faster writer may have given the
// shard back.
func (t *tenure) write(what string, c claim, now time.Time, write func(context.Context) (*coordinationv1.Lease, error)) {
	t.writing = true
	t.tried, t.retry = c.version(), now.Add(t.of.period)
	t.of.task(func(ctx context.Context) {
		lease, err := write(ctx)
		t.of.post(func() {
			t.writing = false
			if err != nil {
				t.of.logger.Info("shard not written", zap.String("to", what), zap.Stringer("shard", t.shard), zap.Error(err))
				return
			}
			t.retry = time.Time{}
			t.of.sight.known[lease.Name] = lease
		})
	})
}

// begin calls the RunFunc.
func (t *tenure) begin(c claim) {
	t.shard.Generation = termOf(c.lease)
	t.running, t.ending, t.lost, t.overdue, t.version = true, false, false, false, c.version()
	h := &held{shard: t.shard, keeper: t.of.keeper}
	var ctx context.Context
	ctx, t.give = context.WithCancelCause(t.of.working)
	ctx, t.hardStop = controller.HardStopContext(ctx)
	ctx = term.Begin(context.WithValue(ctx, heldKey{}, h)) // the holder before may have written until now
	t.of.logger.Info("shard taken", zap.Stringer("shard", h.shard), zap.Int("generation", h.shard.Generation))
	t.of.tasks.Go(func() {
		err := error(&eventqueue.PanicError{Value: eventqueue.ErrAbandoned}) // Goexit
		defer func() {
			h.over.Store(true)
			hadToEnd := ctx.Err() != nil || lifecycle.IsClosed(controller.HardStopped(ctx)) // the goroutine of the life may see it later
			t.of.post(func() { t.ended(err, hadToEnd) })
		}()
		err = t.of.hold(ctx, h.shard)
	})
}

// end tells the RunFunc to end, and reports it if it does not do so in time.
func (t *tenure) end(cause error, within time.Duration) {
	t.ending = true
	if t.stop != nil {
		t.stop()
	}
	lost := t.lost
	late := func() {
		t.of.post(func() {
			if !t.running || !t.ending || lost != t.lost { // a loss has a time of its own
				return
			}
			t.overdue = true
			if lost {
				t.of.logger.Error("work of a shard goes on although the lease is lost, and another member may take the shard: code that does not end with its context needs a restart", zap.Stringer("shard", t.shard))
				return
			}
			t.of.logger.Warn("work of a shard does not end: it is kept until it does", zap.Stringer("shard", t.shard))
			t.hardStop()
		})
	}
	t.stop = t.of.clock.after(within, late)
	t.give(cause)
}

// ended records that the RunFunc has returned.
func (t *tenure) ended(err error, hadToEnd bool) {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
	t.hardStop()
	t.give(nil)
	t.running = false
	l := t.of
	if !hadToEnd {
		if err == nil {
			err = ErrReturned
		}
		if l.err == nil {
			l.err = fmt.Errorf("shard %s: %w", t.shard, err)
		}
		return
	}
	l.logger.Info("shard is not worked any more", zap.Stringer("shard", t.shard), zap.NamedError("left", err))
}
