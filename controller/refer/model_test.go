package refer

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var histories = flag.Uint64("histories", 40, "number of random histories")

// TestRandomReferences changes bundles, what they refer to, and the definitions of kinds, while calls and
// requests fail. When all is quiet, the last call of each bundle saw what the server has, so it came after
// the last change of each object that it refers to; the index has the references of the bundles and no
// others, and the fleet the kinds that they name.
func TestRandomReferences(t *testing.T) {
	for seed := range *histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lag := fleet.WithLag(time.Duration(seed%2) * fleet.DefaultLag)
				h := &history{world: newWorld(t, lag), random: rand.New(rand.NewPCG(seed, 1)), refs: map[string][]string{}, served: map[string]bool{}}
				h.play(80)
			})
		})
	}
}

type history struct {
	*world
	random *rand.Rand
	refs   map[string][]string // by bundle
	served map[string]bool     // defined kinds, and whether they are served
}

var modelKinds = []string{"Widget", "Gadget", "Gizmo"}

func (h *history) kind() string { return modelKinds[h.random.IntN(len(modelKinds))] }

func (h *history) ref() string {
	name := string(rune('a' + h.random.IntN(4)))
	switch h.random.IntN(5) {
	case 0:
		return fmt.Sprintf("%s?v=%d", h.kind(), h.random.IntN(3))
	case 1:
		return fmt.Sprintf("%s??v in (%d,%d)", h.kind(), h.random.IntN(3), h.random.IntN(3))
	}
	return h.kind() + "/" + name
}

func (h *history) play(steps int) {
	h.begin()
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(h.random.Uint64(), 2)) // guarded by mu
	h.failIf(func(string, int) bool {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(6) == 0
	})
	for range steps {
		h.step()
		if h.random.IntN(3) == 0 {
			<-time.After(time.Duration(h.random.IntN(2000)) * time.Millisecond)
		}
	}
	h.server.ClearFaults()
	h.failIf(nil)
	<-time.After(10 * time.Minute) // longer than back-offs and the lag
	h.check()
	for name := range h.refs {
		h.unbundle(name)
	}
	<-time.After(time.Minute)
	pairs, watches := h.index()
	assert.Empty(h, pairs)
	assert.Empty(h, watches)
}

func (h *history) step() {
	kind := h.kind()
	name := string(rune('a' + h.random.IntN(4)))
	served, defined := h.served[kind]
	switch h.random.IntN(13) {
	case 0, 1:
		if !defined && h.server.Create(definition(kind, true)) == nil {
			h.served[kind] = true
		}
	case 2:
		if defined && h.random.IntN(2) == 0 {
			h.undefine(kind)
			delete(h.served, kind)
			if h.random.IntN(2) == 0 && h.server.Create(definition(kind, true)) == nil {
				h.served[kind] = true
			}
		}
	case 3:
		if defined {
			h.served[kind] = !served
			h.serve(kind, !served)
		}
	case 4, 5, 6:
		if served {
			h.put(kind, name, fmt.Sprint(h.random.IntN(3)))
		}
	case 7:
		if served {
			_ = h.server.Delete(widget(kind, "a", name, ""))
		}
	case 8, 9, 10:
		var refs []string
		for range h.random.IntN(4) {
			refs = append(refs, h.ref())
		}
		one := fmt.Sprint("b", h.random.IntN(5))
		h.bundle(one, refs...)
		h.refs[one] = refs
	case 11:
		one := fmt.Sprint("b", h.random.IntN(5))
		if _, ok := h.refs[one]; ok {
			h.unbundle(one)
			delete(h.refs, one)
		}
	case 12:
		if h.random.IntN(8) == 0 {
			h.stop()
			h.begin()
			return
		}
		faults := []reflectortest.Fault{reflectortest.Answer(503), reflectortest.ResetAfterEvents(1), reflectortest.LoseHistory()}
		fault := faults[h.random.IntN(len(faults))].Times(1 + h.random.IntN(3))
		if h.random.IntN(2) == 0 {
			fault = fault.On("watch", "")
		}
		h.server.Inject(fault)
	}
}

func (h *history) check() {
	var want []string
	kinds := map[string]bool{}
	for name, refs := range h.refs {
		for _, ref := range sortedValues(bundle(name, refs...).Data) {
			kind, _, _, _ := split(ref)
			kinds[kind] = true
			want = append(want, name+" "+normal(ref))
			h.mu.Lock()
			saw := h.saw[name+" "+ref]
			h.mu.Unlock()
			if served, defined := h.served[kind]; !served {
				reason := fleet.NotInstalled
				if defined {
					reason = fleet.NoVersion
				}
				assert.Equal(h, "!"+string(reason), saw, "%s %s", name, ref)
				continue
			}
			assert.Equal(h, h.stored(ref), saw, "%s %s", name, ref)
		}
	}
	pairs, watches := h.index()
	assert.ElementsMatch(h, unique(want), pairs)
	for _, kind := range modelKinds {
		assert.Equal(h, kinds[kind], h.isWanted(kind), kind)
	}
	assert.Len(h, watches, len(kinds))
	assert.Equal(h, len(namesWithRefs(h.refs)), h.primaries())
}

func namesWithRefs(refs map[string][]string) (names []string) {
	for name, all := range refs {
		if len(all) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// normal writes a selector as the index does.
func normal(ref string) string {
	kind, namespace, _, selector := split(ref)
	if selector == nil {
		return ref
	}
	if namespace == "" {
		return kind + "??" + selector.String()
	}
	return kind + "?" + selector.String()
}

func unique(all []string) []string {
	seen := map[string]bool{}
	var once []string
	for _, one := range all {
		if !seen[one] {
			once = append(once, one)
		}
		seen[one] = true
	}
	return once
}

// stored is what a call sees that sees what the server has.
func (h *history) stored(ref string) string {
	h.Helper()
	kind, namespace, name, selector := split(ref)
	all, err := h.server.ListKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}, namespace)
	require.NoError(h, err)
	var found []*object
	for _, one := range all {
		if one.GetName() == name && strings.Contains(ref, "/") || selector != nil && selector.Matches(labels.Set(one.GetLabels())) {
			found = append(found, one)
		}
	}
	return describe(found, nil)
}
