package fleet

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var histories = flag.Uint64("histories", 60, "number of random histories")

// TestRandomHistories lets owners come and go while definitions, versions, APIs, permissions and objects change and faults break requests. When all is
// quiet, the cache of each wanted and served kind equals the server, its subscribers have heard just what leads there, and nothing is watched that nobody
// wants. That holds without permissions, too, and when they are back.
func TestRandomHistories(t *testing.T) {
	for seed := range *histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newHistory(t, seed).play(60) })
		})
	}
}

// history is a world with a random course.
type history struct {
	*world
	random *rand.Rand
	owners []*Owner
	heard  map[*Wanted[*object]]*replica
	hidden map[string]bool     // kinds whose version v1 is not served
	stable map[string][]period // when definitions existed, without a gap
	lives  *lives
	spared map[int]bool // troubles that do not come: one may heal what another one breaks

	faults   []*reflectortest.Injection // that will end
	refusals []*reflectortest.Injection // permissions that the program lacks
	removed  *reflectortest.Injection   // while the API of readings does not exist
	named    atomic.Int64               // when discovery begins to name the readings, in nanoseconds
	broken   bool                       // the API of readings does not work
}

type period struct{ from, to time.Time }

// lives knows the definition of each object that has not been deleted.
type lives struct {
	mu sync.Mutex
	of map[types.UID]types.UID // guarded by mu
}

func (l *lives) end(which func(uid, definition types.UID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.of, which)
}

// replica is what a subscriber knows from events alone.
type replica struct {
	lives *lives
	mu    sync.Mutex
	uids  map[store.Key]string // guarded by mu
	bad   []string             // events that contradict the ones before, or the server; guarded by mu
}

func (r *replica) Handle(_ context.Context, event eventqueue.Event[*object]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid, known := r.uids[event.Key]
	switch event.Type {
	case eventqueue.Deletion:
		if known && uid != string(event.Object.GetUID()) {
			r.bad = append(r.bad, fmt.Sprintf("deletion of another %s", event.Key))
		}
		r.lives.mu.Lock()
		if _, lives := r.lives.of[event.Object.GetUID()]; lives {
			r.bad = append(r.bad, fmt.Sprintf("deletion of %s, which exists", event.Key))
		}
		r.lives.mu.Unlock()
		delete(r.uids, event.Key)
	case eventqueue.Addition:
		if known {
			r.bad = append(r.bad, fmt.Sprintf("%s added twice", event.Key))
		}
		r.uids[event.Key] = string(event.Object.GetUID())
	default:
		if uid != string(event.Object.GetUID()) {
			r.bad = append(r.bad, fmt.Sprintf("modification of another %s", event.Key))
		}
	}
	return nil
}

var historyKinds = []string{"Widget", "Gadget", "Gizmo"}

const never = math.MaxInt64

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		random: rand.New(rand.NewPCG(seed, 1)), heard: map[*Wanted[*object]]*replica{}, hidden: map[string]bool{},
		stable: map[string][]period{}, lives: &lives{of: map[types.UID]types.UID{}}, spared: map[int]bool{},
	}
	for _, trouble := range []int{11, 13, 14} {
		h.spared[trouble] = h.random.IntN(2) == 0
	}
	discovery := &discoveryOf{edit: func(g *apidiscovery.APIGroupDiscovery) {
		if time.Now().UnixNano() < h.named.Load() {
			g.Versions = nil
		}
	}}
	discovery.on.Store(true)
	h.named.Store(never)
	// Watches end soon, so that what can be asked no longer is missed.
	server := reflectortest.Start(t, reflectortest.WithCustomResourceDefinitions(), reflectortest.WithResource(readings), reflectortest.WithWatchTimeout(time.Minute))
	h.removed = server.Inject(reflectortest.Answer(404).On("", readings.Plural))
	h.world = newWorldOf(t, server, discovery.wrap)
	h.want(podKind) // discovery is asked before others are wanted
	return h
}

func (h *history) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Kind: historyKinds[h.random.IntN(len(historyKinds))]}
}

func (h *history) play(steps int) {
	for range steps {
		h.step()
		switch h.random.IntN(12) {
		case 0, 1, 2, 3:
			<-time.After(time.Duration(h.random.IntN(3000)) * time.Millisecond)
		case 4:
			<-time.After(time.Duration(h.random.IntN(600)) * time.Second)
		}
	}
	h.heal(&h.faults)
	<-time.After(10 * time.Minute) // longer than back-offs and the lag
	h.check()
	h.heal(&h.refusals)
	<-time.After(5 * time.Minute)
	h.check()
}

func (h *history) heal(some *[]*reflectortest.Injection) {
	for _, one := range *some {
		one.Remove()
	}
	*some = nil
}

// define creates a definition. Times of creation tell the objects of two definitions apart, in seconds.
func (h *history) define(kind string) {
	<-time.After(time.Second)
	if h.server.Create(definitionOf(kind, "Namespaced", "v1beta1", "v1")) == nil {
		h.hidden[kind] = false
		h.stable[kind] = append(h.stable[kind], period{from: time.Now()})
	}
}

func (h *history) undefine(kind string) {
	definition := bare(crdKind, "", lower(kind)+"s.example.com")
	if h.server.Get(definition) != nil {
		return
	}
	h.lives.end(func(_, of types.UID) bool { return of == definition.GetUID() })
	require.NoError(h, h.server.Delete(definition))
	h.stable[kind][len(h.stable[kind])-1].to = time.Now()
}

// create creates an object, if its kind exists.
func (h *history) create(kind schema.GroupVersionKind, name string) {
	definition := bare(crdKind, "", lower(kind.Kind)+"s.example.com")
	_ = h.server.Get(definition)
	one := bare(kind, "a", name)
	if h.server.Create(one) == nil {
		h.lives.mu.Lock()
		defer h.lives.mu.Unlock()
		h.lives.of[one.GetUID()] = definition.GetUID()
	}
}

func (h *history) delete(kind schema.GroupVersionKind, name string) {
	one := bare(kind, "a", name)
	if h.server.Get(one) != nil {
		return
	}
	h.lives.end(func(uid, _ types.UID) bool { return uid == one.GetUID() })
	require.NoError(h, h.server.Delete(one))
}

// step does something that may fail: an object or a definition may not exist.
func (h *history) step() {
	kind := h.kind()
	name := string(rune('a' + h.random.IntN(4)))
	v1, beta := kind, kind
	v1.Version, beta.Version = "v1", "v1beta1"
	what := h.random.IntN(15)
	if h.spared[what] {
		return
	}
	switch what {
	case 0, 1:
		h.define(kind.Kind)
	case 2:
		h.undefine(kind.Kind)
		if h.random.IntN(2) == 0 {
			h.define(kind.Kind)
		}
		if h.random.IntN(2) == 0 {
			h.serveV1(kind.Kind)
		}
	case 3:
		h.serveV1(kind.Kind)
	case 4, 5, 6:
		h.create(beta, name)
		h.create(reading, name)
	case 7:
		h.delete(beta, name)
		h.delete(reading, name)
	case 8, 9:
		switch h.random.IntN(5) {
		case 0, 1:
			kind = v1
		case 2:
			kind = reading
		}
		owner := h.fleet.NewOwner(h.Context(), "rule")
		wanted, err := Want[*object](owner, kind, Selection{})
		require.NoError(h, err)
		seen := &replica{uids: map[store.Key]string{}, lives: h.lives}
		wanted.Handle(seen)
		h.owners, h.heard[wanted] = append(h.owners, owner), seen
	case 10:
		if len(h.owners) > 0 {
			n := h.random.IntN(len(h.owners))
			h.owners[n].Leave()
			maps.DeleteFunc(h.heard, func(wanted *Wanted[*object], _ *replica) bool { return wanted.want.owner == h.owners[n] })
			h.owners = slices.Delete(h.owners, n, n+1)
		}
	case 11:
		faults := []reflectortest.Fault{reflectortest.Answer(503), reflectortest.Answer(403), reflectortest.ResetAfterEvents(1), reflectortest.LoseHistory()}
		fault := faults[h.random.IntN(len(faults))].Times(1 + h.random.IntN(3))
		if h.random.IntN(2) == 0 {
			fault = fault.On("watch", "")
		}
		h.faults = append(h.faults, h.server.Inject(fault))
	case 12:
		h.changeAPI()
	case 13:
		h.changePermissions()
	case 14: // the definitions cannot be read for a while, and what happened meanwhile is not known afterwards
		down := []*reflectortest.Injection{h.server.Inject(reflectortest.Answer(503).On("", crdResource.Resource))}
		if h.random.IntN(2) == 0 {
			down = append(down, h.server.Inject(reflectortest.Answer(503).On("", lower(kind.Kind)+"s")))
		}
		<-time.After(2 * time.Minute)
		if h.random.IntN(4) > 0 {
			h.undefine(kind.Kind)
			h.define(kind.Kind)
			h.create(beta, name)
			<-time.After(time.Duration(h.random.IntN(60)) * time.Second)
			h.serveV1(kind.Kind)
		}
		h.faults = append(h.faults, h.server.Inject(reflectortest.LoseHistory().On("watch", crdResource.Resource).Times(1)))
		h.heal(&down)
	}
}

// serveV1 begins or ceases to serve the version v1.
func (h *history) serveV1(kind string) {
	definition := bare(crdKind, "", lower(kind)+"s.example.com")
	if h.server.Get(definition) != nil {
		return
	}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	h.hidden[kind] = !h.hidden[kind]
	versions[1].(map[string]any)["served"] = !h.hidden[kind]
	require.NoError(h, unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"))
	require.NoError(h, h.server.Update(definition))
}

// changeAPI installs the API of readings, breaks or mends it, or removes it.
func (h *history) changeAPI() {
	service := readingsService()
	switch {
	case h.removed != nil:
		h.removed.Remove()
		h.removed, h.broken = nil, false
		h.named.Store(time.Now().Add(time.Duration(h.random.IntN(20)) * time.Second).UnixNano())
		require.NoError(h, h.server.Create(service))
	case h.random.IntN(3) > 0:
		h.broken = !h.broken
		setAvailable(h.T, service, map[bool]string{true: "False", false: "True"}[h.broken])
		require.NoError(h, h.server.Update(service))
	default:
		require.NoError(h, h.server.Delete(service))
		h.named.Store(never)
		h.removed = h.server.Inject(reflectortest.Answer(404).On("", readings.Plural))
	}
}

// changePermissions takes permissions away, or gives all of them back.
func (h *history) changePermissions() {
	if len(h.refusals) > 0 && h.random.IntN(2) == 0 {
		h.heal(&h.refusals)
		return
	}
	plural := []string{crdResource.Resource, serviceResource.Resource}[h.random.IntN(2)]
	verbs := [][]string{{"watch"}, {"list", "watch"}}[h.random.IntN(2)]
	for _, verb := range verbs {
		h.refusals = append(h.refusals, h.server.Inject(reflectortest.Answer(403).On(verb, plural)))
	}
}

func (h *history) check() {
	synctest.Wait()
	wanted := map[identity]bool{}
	for w, seen := range h.heard {
		wanted[w.want.member.identity] = true
		h.checkOne(w, seen)
	}
	for _, m := range h.fleet.all() {
		assert.True(h, wanted[m.identity] || m.identity.kind == podKind, "nobody wants %s", m.identity)
	}
	h.checkLog()
}

func (h *history) checkOne(w *Wanted[*object], seen *replica) {
	id := w.want.member.identity
	definition := bare(crdKind, "", lower(id.kind.Kind)+"s.example.com")
	exists := h.server.Get(definition) == nil
	served := exists && !(id.kind.Version == "v1" && h.hidden[id.kind.Kind])
	if id.kind == reading {
		served = h.removed == nil && !h.broken
	}
	have := map[store.Key]string{}
	for key, one := range w.Cache().All() {
		have[key] = string(one.GetUID())
	}
	seen.mu.Lock()
	assert.Equal(h, have, seen.uids, "what a subscriber of %s knows", id)
	assert.Empty(h, seen.bad)
	seen.mu.Unlock()
	filled := w.want.member.filled
	switch {
	case served:
		require.NoError(h, w.Ready(), "%s", id)
		kind := id.kind
		if kind != reading {
			kind.Version = "v1beta1"
		}
		all, err := h.server.ListKind(kind, "")
		require.NoError(h, err)
		want := map[store.Key]string{}
		for _, one := range all {
			want[store.Key{Namespace: one.GetNamespace(), Name: one.GetName()}] = string(one.GetUID())
		}
		assert.Equal(h, want, have, "the cache of %s", id)
	case len(h.refusals) > 0: // what is known of the definition may be outdated
	case id.kind != reading && exists && filled.uid != "": // the last objects are there, but none of an earlier definition
		assert.Error(h, w.Ready(), "%s", id)
		for key, one := range w.Cache().All() {
			created, since := one.GetCreationTimestamp(), definition.GetCreationTimestamp()
			assert.False(h, created.Before(&since), "%s of an earlier definition in the cache of %s", key, id)
		}
	case id.kind != reading && !exists && filled.uid != "":
		assert.Error(h, w.Ready(), "%s", id)
		assert.Empty(h, have, "the cache of %s", id)
	default:
		assert.Error(h, w.Ready(), "%s", id)
	}
}

// checkLog finds kinds that were served and then called not installed while their definition existed.
func (h *history) checkLog() {
	served := map[string]time.Time{} // since when
	for _, entry := range h.logs.All() {
		fields := entry.ContextMap()
		name := fmt.Sprint(fields["kind"])
		if entry.Message == "kind is served" {
			served[name] = entry.Time
		}
		if fields["reason"] != string(NotInstalled) || served[name].IsZero() {
			continue
		}
		for _, p := range h.stable[strings.Split(name, ".")[0]] {
			known := p.from.Add(3 * time.Minute) // also by discovery
			exists := p.to.IsZero() || entry.Time.Before(p.to)
			assert.False(h, served[name].After(known) && exists, "%s has a definition, but %s at %s", name, entry.Message, entry.Time)
		}
	}
}
