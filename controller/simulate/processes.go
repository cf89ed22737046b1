package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var errCrashed = errors.New("simulate: the process has crashed")

// A process is one run of the operator. Nothing that it does after its crash reaches the server.
type process struct {
	world  *world
	number int
	// alive ends when the process crashes or is stopped: its requests and watches end with it.
	alive context.Context
	kill  context.CancelFunc
	done  chan error // capacity 1; what Operator returned

	known map[target]version // the newest version of each object that an answer or an event has shown
	// cached is the same of reads and watches only, and also of answers to writes if the kind is not watched.
	// A deletion has no UID.
	cached  map[target]version
	watches map[schema.GroupVersionResource]bool
	behind  atomic.Uint64 // lists at version "0" show the state of this version, if it is not 0

	stop     context.CancelFunc // ends the context of Operator
	stopping time.Time          // when it was called, if it was
	leads    atomic.Int64       // when the process last got a lease, in nanoseconds, or 0
	noticed  int64              // leads, when the driver last looked
	cutOff   atomic.Bool        // its requests for leases fail
	mayEnd   bool               // by itself: it was stopped, or has lost its lease
}

// A version is what tells one state of an object from another.
type version struct {
	uid     types.UID
	version uint64
}

// grace is how long a process may take to end by itself, as in a Pod by default.
const grace = 30 * time.Second

// start starts a process of the operator.
func (w *world) start(ctx context.Context) {
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{world: w, number: w.started, alive: alive, done: make(chan error, 1), known: map[target]version{}, cached: map[target]version{}, watches: map[schema.GroupVersionResource]bool{}}
	running, stop := context.WithCancel(context.WithValue(ctx, processKey{}, p))
	p.kill, p.stop = func() { kill(); stop() }, stop
	w.started++
	if w.restart != nil {
		p.behind.Store(*w.restart)
		w.restart = nil
		h := &hold{clause: clause{verb: restartBehind, what: everything}, left: math.MaxInt, of: p}
		if w.undisturbed == nil || !w.undisturbed.elects {
			h.left, h.until = maxWrites, time.Now().Add(maxHold)
		}
		w.holds = append(w.holds, h)
	}
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	go func() {
		var err error
		defer func() {
			if value := recover(); value != nil {
				handlers.note(running, value)
				err = fmt.Errorf("it panics: %.300v", value)
			}
			stop()
			p.done <- err
			w.wake()
		}()
		err = w.scenario.Operator(running, p.config())
	}()
}

// awaitEnd waits until a killed process has returned from Operator.
func (w *world) awaitEnd(p *process) {
	timer := time.NewTimer(10 * time.Minute)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		w.result.fail("never ends", "the operator does not return within ten minutes after its context has ended")
	}
	synctest.Wait()
}

// reap takes processes that have ended from those that live, and starts one if none is left. It reports
// whether any has ended, and whether the run can go on: an operator does not end by itself.
func (w *world) reap(ctx context.Context) (ended, ok bool) {
	for _, p := range slices.Clone(w.processes) {
		select {
		case err := <-p.done:
			p.done <- err
			switch {
			case p.alive.Err() != nil || p.mayEnd:
				p.kill()
			default:
				w.fails(fmt.Errorf("the operator ended by itself: %w", cmp.Or(err, errNil)))
				return false, false
			}
		default:
			if !p.stopping.IsZero() && time.Since(p.stopping) >= grace {
				p.kill()
			}
		}
		if p.alive.Err() != nil {
			ended, w.disturbance = true, true
			w.tell("p%d has ended", p.number)
			w.awaitEnd(p)
			w.mu.Lock()
			w.processes = slices.DeleteFunc(w.processes, func(other *process) bool { return other == p })
			w.mu.Unlock()
		}
	}
	if len(w.processes) == 0 {
		w.start(ctx)
	}
	return ended, true
}

func (w *world) stopping() bool {
	return slices.ContainsFunc(w.processes, func(p *process) bool { return !p.stopping.IsZero() })
}

// restore plays a server that comes back from a backup. The operator restarts, as an administrator is
// told to do then: no client notices by itself that versions were used before.
func (w *world) restore() {
	w.tell("the server comes back from the backup")
	for _, p := range w.processes {
		p.kill()
	}
	if err := w.server.Restore(w.backup.version); err != nil {
		w.result.fail("restore", "the server cannot be restored: %v", err)
	}
	w.next = w.backup.step // the user sees that the later steps are undone
	w.until = time.Time{}  // of a step of Wait, whose time has passed
	w.backup, w.result.restored = point{}, true
	w.annotated, w.playedAt, w.checked, w.moved = nil, 0, 0, time.Now()
}

func (p *process) crashed() error {
	if p.alive.Err() != nil {
		return errCrashed
	}
	return nil
}

// know notes that the process has a version of an object.
func (p *process) know(t target, meta objectMeta, read bool) {
	number, _ := strconv.ParseUint(meta.ResourceVersion, 10, 64)
	v := version{meta.UID, number}
	t = t.object()
	if v.version > p.known[t].version {
		p.known[t] = v
	}
	if read && v.version > p.cached[t].version {
		p.cached[t] = v
	}
}

// relist forgets what the cache of the process showed, because a list, or the initial events of a watch, show all that
// there is. It does not if the list has only a part.
func (p *process) relist(t target, query url.Values) {
	if query.Get("continue") != "" || query.Get("labelSelector") != "" || query.Get("fieldSelector") != "" {
		return
	}
	maps.DeleteFunc(p.cached, func(shown target, _ version) bool {
		return shown.gvr == t.gvr && (t.namespace == "" || shown.namespace == t.namespace)
	})
}

// knowAnswer notes the versions in an answer.
func (p *process) knowAnswer(t target, r reflectortest.Request, content []byte, read bool) {
	type object struct{ Metadata objectMeta }
	var o struct {
		object
		Items []object
	}
	if json.Unmarshal(content, &o) != nil {
		return
	}
	if r.Verb == "list" && o.Metadata.Continue == "" { // else it shows a part, like the list of one object by which CatchUp learns the newest version
		p.relist(t, r.Query)
	}
	for _, one := range append(o.Items, o.object) {
		if meta := one.Metadata; meta.Name != "" {
			p.know(target{gvr: t.gvr, namespace: meta.Namespace, name: meta.Name}, meta, read)
		}
	}
}
