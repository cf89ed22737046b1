package simulate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// call is the verb of a call of a system outside of the cluster.
const call = "call"

// callClauses are the disturbances of a call in an exploration. A line may have others at it.
var callClauses = []clause{
	{verb: crashAfter}, {verb: lose}, {verb: stepAfter},
	{verb: fail, what: "500"}, {verb: fail, what: "500", since: 10 * time.Minute},
}

var (
	errCallFails = errors.New("simulate: the system outside of the cluster fails")
	errCallLost  = errors.New("simulate: the answer of the system outside of the cluster was lost")
)

// processKey is the key of the process in the context of Operator.
type processKey struct{}

// Call is how a fake of a system outside of the cluster has an effect, so that a run disturbs it like a
// write: it may fail without the effect, its answer may be lost after the effect, and the process may end there.
// do has the effect. It must not wait for time or for the operator, but takes the locks of the fake, which its
// caller must not hold. Reads need no Call.
//
// A line names the call by verb and name, as in "lose call put shop.example.com#1". So both must be the same in
// each run. ctx derives from that of Operator, as the context of a reconcile function does. Without a
// simulation, as in another test, Call only calls do.
func Call(ctx context.Context, verb, name string, do func() error) error {
	p, ok := ctx.Value(processKey{}).(*process)
	if !ok {
		return do()
	}
	if p.alive.Err() != nil {
		return p.idle(ctx)
	}
	w, t := p.world, target{gvr: schema.GroupVersionResource{Resource: oneWord(verb)}, name: oneWord(name)}
	m := &message{class: request, process: p, verb: call, target: t}
	w.checkLeader(m)
	v, err := w.wait(ctx, m)
	switch {
	case err != nil:
		return err
	case v.status != nil && v.crash:
		p.kill()
		return errCrashed
	case v.status != nil:
		return errCallFails
	}
	before := w.outside()
	err = do()
	w.checked = 0 // an Invariant may look at the system
	if err != nil {
		w.tell("  refused: %v", err)
		w.forget(m)
	}
	if !slices.Equal(before, w.outside()) {
		w.moved = time.Now()
	} else {
		w.forgive()
	}
	switch {
	case v.crash:
		p.kill()
		return errCrashed
	case v.lose:
		return errCallLost
	}
	if _, lost := w.wait(ctx, &message{class: answer, process: p, verb: call, target: t}); lost != nil {
		return lost
	}
	return err
}

// outside returns the lines of what is outside of the cluster.
func (w *world) outside() (lines []string) {
	if w.lines != nil {
		w.playing.call("the function that Scenario.Outside returned", func() { lines = w.lines() })
	}
	slices.Sort(lines)
	return lines
}

// oneWord is text as a line can have it.
func oneWord(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '#' || r == ';' || r <= ' ' {
			return '_'
		}
		return r
	}, text)
}
