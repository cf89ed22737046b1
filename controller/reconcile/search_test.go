package reconcile

import (
	"slices"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// history is one object, which a reconcile function and another writer write, and the cache and the
// state of the object's key. It makes the steps that search chooses.
type history struct {
	log    []object // the states of the server, the oldest first
	uids   int      // made so far
	cached int      // how many states of log the cache has had; 0 for none

	calling bool
	shown   int    // cached when the cache last changed because of the other writer
	began   int    // cached at the begin of the last call
	held    object // what the call knows
	call    call
	state   state
	dirty   bool // a call is to follow

	steps []string
	// quiet is true if there were only steps after which every event is an echo.
	quiet bool
}

// object is a state of the object. The zero object stands for none.
type object struct {
	uid, version     int
	foreign, deleted bool
}

func (o object) exists() bool { return o.uid != 0 && !o.deleted }

func (o object) known() store.Version {
	if o.uid == 0 {
		return store.Version{}
	}
	return store.Version{UID: types.UID("u" + strconv.Itoa(o.uid)), ResourceVersion: strconv.Itoa(o.version)}
}

func (o object) meta() metav1.Object {
	v := o.known()
	return &metav1.ObjectMeta{UID: v.UID, ResourceVersion: v.ResourceVersion}
}

func (h *history) clone() *history {
	next := &history{
		log: slices.Clone(h.log), uids: h.uids, cached: h.cached, calling: h.calling, shown: h.shown, began: h.began, held: h.held,
		dirty: h.dirty, steps: slices.Clone(h.steps), quiet: h.quiet,
	}
	next.call.writes = slices.Clone(h.call.writes)
	next.state = state{running: h.state.running, crowded: h.state.crowded, own: slices.Clone(h.state.own), during: slices.Clone(h.state.during)}
	return next
}

// now is the state of the server after a number of states.
func (h *history) at(n int) object {
	if n == 0 || h.log[n-1].deleted {
		return object{}
	}
	return h.log[n-1]
}

func (h *history) now() object { return h.at(len(h.log)) }

func (h *history) write(o object) object {
	o.version = len(h.log) + 1
	h.log = append(h.log, o)
	return o
}

func (h *history) create(foreign bool) object {
	h.uids++
	return h.write(object{uid: h.uids, foreign: foreign})
}

var noSources = &run{options: &options{}}

// report is what a client reports of an answer.
func (h *history) report(answer object, created bool, replaced int) {
	w := ownwrites.Write{Object: answer.meta(), Created: created}
	if replaced != 0 {
		w.Replaced = strconv.Itoa(replaced)
	}
	h.call.run = noSources
	h.call.Record(w)
	h.held = answer
}

// advance brings the cache to a number of states, by one event or by a list, and tells the key.
func (h *history) advance(n int, listed bool) {
	from, to := h.at(h.cached), h.at(n)
	if from != to && slices.ContainsFunc(h.log[h.cached:n], func(o object) bool { return o.foreign }) {
		h.shown = n // a list does not show an object that came and went
	}
	h.cached = n
	var events []trigger
	switch {
	case !from.exists() && !to.exists():
	case !from.exists():
		events = []trigger{{of: to.known(), added: true}}
	case !to.exists():
		events = []trigger{{of: from.known(), gone: true}}
	case from.uid != to.uid:
		events = []trigger{{of: from.known(), gone: true}, {of: to.known(), added: true}}
	case from == to:
	default:
		events = []trigger{{of: to.known(), prior: from.known()}}
	}
	for _, t := range events {
		t.listed = listed
		h.dirty = !h.state.keep(t) || h.dirty
	}
}

func (h *history) event() { h.advance(h.cached+1, false) }

func (h *history) begin() {
	h.calling, h.state.running, h.dirty = true, true, false
	h.began, h.held = h.cached, h.at(h.cached)
}

func (h *history) end() {
	wrote := slices.DeleteFunc(h.call.writes, func(w written) bool { return !w.certain() })
	h.calling, h.state.running, h.call.writes = false, false, nil
	h.dirty = len(h.state.foreign(wrote)) > 0 || h.dirty
}

// step is something that may happen, and when.
type step struct {
	name  string
	may   func(h *history) bool
	does  func(h *history)
	quiet bool // all events that follow are echoes
}

var (
	calling = func(h *history) bool { return h.calling }
	writing = func(h *history) bool { return h.calling && h.now().exists() }
	fresh   = func(h *history) bool { return writing(h) && h.held == h.now() }
)

var steps = []step{
	{"call", func(h *history) bool { return !h.calling }, (*history).begin, true},
	{"read", func(h *history) bool { return h.calling && h.held != h.now() }, func(h *history) { h.held = h.now() }, true},
	{"write with its version", fresh, func(h *history) {
		replaced := h.held.version
		h.report(h.write(object{uid: h.held.uid}), false, replaced)
	}, true},
	{"write nothing with its version", fresh, func(h *history) { h.report(h.now(), false, h.held.version) }, true},
	{"write", writing, func(h *history) { h.report(h.write(object{uid: h.now().uid}), false, 0) }, false},
	{"write nothing", writing, func(h *history) { h.report(h.now(), false, 0) }, true},
	{"write with its version, and lose the answer", fresh, func(h *history) { h.write(object{uid: h.held.uid}) }, false},
	{"create", func(h *history) bool { return h.calling && !h.now().exists() }, func(h *history) { h.report(h.create(false), true, 0) }, true},
	{"create, and lose the answer", func(h *history) bool { return h.calling && !h.now().exists() }, func(h *history) { h.create(false) }, false},
	{"delete", writing, func(h *history) { h.write(object{uid: h.now().uid, deleted: true}) }, false},
	{"return", calling, (*history).end, true},
	{"another writes", func(h *history) bool { return h.now().exists() }, func(h *history) { h.write(object{uid: h.now().uid, foreign: true}) }, false},
	{"another creates", func(h *history) bool { return !h.now().exists() }, func(h *history) { h.create(true) }, false},
	{"another deletes", func(h *history) bool { return h.now().exists() }, func(h *history) { h.write(object{uid: h.now().uid, foreign: true, deleted: true}) }, false},
	{"event", func(h *history) bool { return h.cached < len(h.log) }, (*history).event, true},
	{"relist", func(h *history) bool { return h.cached < len(h.log) }, func(h *history) { h.advance(len(h.log), true) }, false},
}

// finish has the call return, and the remaining events come, in the given order. Calls that follow
// write nothing.
func (h *history) finish(eventsFirst bool) {
	events := func() {
		for h.cached < len(h.log) {
			h.event()
		}
	}
	if eventsFirst {
		events()
	}
	if h.calling {
		h.end()
	}
	events()
}

// text returns all that decides about what may follow.
func (h *history) text() string {
	b := make([]byte, 0, 256)
	number := func(n int, flags ...bool) {
		b = append(b, byte(n))
		for _, flag := range flags {
			b = strconv.AppendBool(b, flag)
		}
	}
	for _, o := range h.log {
		number(o.uid, o.foreign, o.deleted)
	}
	number(h.cached, h.calling, h.dirty, h.quiet, h.state.crowded)
	number(h.began)
	number(h.shown)
	number(h.held.version)
	for _, w := range h.call.writes {
		b = append(b, "w"+w.version.ResourceVersion+w.Replaced...)
		number(0, w.Created)
	}
	for _, w := range h.state.own {
		b = append(b, "o"+w.version.ResourceVersion+"-"+w.Replaced...)
	}
	for _, t := range h.state.during {
		b = append(b, "t"+t.of.ResourceVersion+"-"+t.prior.ResourceVersion...)
		number(0, t.added, t.gone, t.listed)
	}
	return string(b)
}

// search makes every sequence of steps, and calls visit after each step, except for what it has seen.
func search(h *history, depth int, seen map[string]int, visit func(*history)) {
	at := h.text()
	if left, ok := seen[at]; ok && left >= depth {
		return
	}
	seen[at] = depth
	visit(h)
	if depth == 0 {
		return
	}
	for _, one := range steps {
		if one.may(h) {
			next := h.clone()
			next.steps, next.quiet = append(next.steps, one.name), next.quiet && one.quiet
			one.does(next)
			search(next, depth-1, seen, visit)
		}
	}
}

// Two writers of one object, and every order of what may happen: the last call begins when the cache
// has shown what the other writer did. Echoes cause no call.
func TestNoOrderOfWritesAndEventsHidesAnotherWritersState(t *testing.T) {
	depth := 6
	if testing.Short() {
		depth = 5
	}
	histories, echoes := 0, 0
	visit := func(h *history) {
		histories++
		for _, eventsFirst := range []bool{false, true} {
			end := h.clone()
			end.finish(eventsFirst)
			if !end.dirty && end.began < end.shown {
				t.Fatalf("the last call began at state %d, and state %d shows the other writer: %q", end.began, end.shown, h.steps)
			}
			if h.quiet && end.dirty {
				t.Fatalf("an echo caused a call: %q", h.steps)
			}
		}
		if h.quiet && slices.ContainsFunc(h.log, func(o object) bool { return !o.foreign }) {
			echoes++
		}
	}
	exists := &history{log: []object{{uid: 1, version: 1, foreign: true}}, uids: 1, cached: 1, shown: 1, began: 1, quiet: true}
	search(exists, depth, map[string]int{}, visit)
	none := &history{quiet: true}
	search(none, depth, map[string]int{}, visit)
	assert.Greater(t, echoes, 100, "the search makes echoes")
	t.Logf("%d histories, %d with echoes", histories, echoes)
}
