package fleet

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var histories = flag.Uint64("histories", 60, "number of random histories")

// TestRandomHistories lets owners come and go while definitions, versions and objects change and faults break requests. When all is quiet, the cache of
// each wanted and served kind equals the server, its subscribers have heard just what leads there, and nothing is watched that nobody wants.
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
	hidden map[string]bool // kinds whose version v1 is not served
}

// replica is what a subscriber knows from events alone.
type replica struct {
	mu   sync.Mutex
	uids map[store.Key]string // guarded by mu
	bad  []string             // events that contradict the ones before; guarded by mu
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

func newHistory(t *testing.T, seed uint64) *history {
	return &history{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 1)), heard: map[*Wanted[*object]]*replica{}, hidden: map[string]bool{}}
}

func (h *history) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Kind: historyKinds[h.random.IntN(len(historyKinds))]}
}

func (h *history) play(steps int) {
	for range steps {
		h.step()
		if h.random.IntN(3) == 0 {
			<-time.After(time.Duration(h.random.IntN(3000)) * time.Millisecond)
		}
	}
	h.server.ClearFaults()
	<-time.After(5 * time.Minute) // longer than back-offs and the lag
	h.check()
}

// step does something that may fail: an object or a definition may not exist.
func (h *history) step() {
	kind := h.kind()
	name := string(rune('a' + h.random.IntN(4)))
	v1 := kind
	v1.Version = "v1"
	crd := lower(kind.Kind) + "s.example.com"
	switch h.random.IntN(12) {
	case 0, 1:
		if h.server.Create(definitionOf(kind.Kind, "Namespaced", "v1beta1", "v1")) == nil {
			h.hidden[kind.Kind] = false
		}
	case 2:
		_ = h.server.Delete(bare(crdKind, "", crd))
		if h.random.IntN(2) == 0 && h.server.Create(definitionOf(kind.Kind, "Namespaced", "v1beta1", "v1")) == nil {
			h.hidden[kind.Kind] = false
		}
	case 3:
		definition := bare(crdKind, "", crd)
		if h.server.Get(definition) != nil {
			return
		}
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		h.hidden[kind.Kind] = !h.hidden[kind.Kind]
		versions[1].(map[string]any)["served"] = !h.hidden[kind.Kind]
		require.NoError(h, unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"))
		require.NoError(h, h.server.Update(definition))
	case 4, 5, 6:
		beta := kind
		beta.Version = "v1beta1"
		_ = h.server.Create(bare(beta, "a", name))
	case 7:
		beta := kind
		beta.Version = "v1beta1"
		_ = h.server.Delete(bare(beta, "a", name))
	case 8, 9:
		if h.random.IntN(2) == 0 {
			kind = v1
		}
		owner := h.fleet.NewOwner(h.Context(), "rule")
		wanted, err := Want[*object](owner, kind, Selection{})
		require.NoError(h, err)
		seen := &replica{uids: map[store.Key]string{}}
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
		h.server.Inject(fault)
	}
}

func (h *history) check() {
	wanted := map[identity]bool{}
	for w, seen := range h.heard {
		id := w.want.member.identity
		wanted[id] = true
		definition := bare(crdKind, "", lower(id.kind.Kind)+"s.example.com")
		exists := h.server.Get(definition) == nil
		served := exists && !(id.kind.Version == "v1" && h.hidden[id.kind.Kind])
		if !served {
			assert.Error(h, w.Ready(), "%s", id)
			if exists {
				continue // the last objects are there
			}
		}
		want := map[store.Key]string{}
		if served {
			require.NoError(h, w.Ready(), "%s", id)
			kind := id.kind
			kind.Version = "v1beta1"
			all, err := h.server.ListKind(kind, "")
			require.NoError(h, err)
			for _, one := range all {
				want[store.Key{Namespace: one.GetNamespace(), Name: one.GetName()}] = string(one.GetUID())
			}
		}
		have := map[store.Key]string{}
		for key, one := range w.Cache().All() {
			have[key] = string(one.GetUID())
		}
		assert.Equal(h, want, have, "the cache of %s", id)
		seen.mu.Lock()
		assert.Equal(h, want, seen.uids, "what a subscriber of %s knows", id)
		assert.Empty(h, seen.bad)
		seen.mu.Unlock()
	}
	for _, m := range h.fleet.all() {
		assert.True(h, wanted[m.identity], "nobody wants %s", m.identity)
	}
}
