package inspect

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func everything(key) bool { return true }

func commitOf(names ...string) *store.Commit[string] {
	c := &store.Commit[string]{Origin: store.Watch}
	for _, name := range names {
		c.Changes = append(c.Changes, store.Change[string]{Type: store.Modification, Key: store.Key{Name: name}})
	}
	return c
}

func names(changes []entry[string]) string {
	var all string
	for _, c := range changes {
		all += c.key.Name
	}
	return all
}

func TestNotingAChangeCostsNoMemory(t *testing.T) {
	h := &history[string]{size: 16}
	c := commitOf("a")
	h.Commit(c)
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Commit(c) }))
}

func TestHistoryIsTheLastChangesTheNewestFirst(t *testing.T) {
	for size, want := range map[int]string{0: "", 1: "f", 4: "fedc", 6: "fedcba", 9: "fedcba"} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			h := &history[string]{size: size}
			assert.Empty(t, h.last(10, everything))
			h.Commit(commitOf("a"))
			h.Commit(commitOf())
			h.Commit(commitOf("b", "c", "d", "e", "f"))
			assert.Equal(t, want, names(h.last(10, everything)))
			total, _, _ := h.count()
			assert.EqualValues(t, 6, total)
			assert.Equal(t, want[:min(len(want), 2)], names(h.last(2, everything)))
			h.Commit(commitOf("g"))
			if size > 1 {
				assert.Equal(t, "gf", names(h.last(2, everything)))
			}
			h.Commit(commitOf("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"))
			assert.Equal(t, "lkjihgfed"[:size], names(h.last(size, everything)), "more than there is room for")
		})
	}
}

func TestObjectsOfTheLastChangesAreKept(t *testing.T) {
	for _, size := range []int{3, 5, 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			h := &history[string]{size: size, versions: 3}
			held := func() (all string) {
				for _, e := range h.last(100, everything) {
					if e.held {
						all += e.before + e.after
					} else {
						assert.Empty(t, e.before+e.after)
					}
				}
				return all
			}
			change := func(kind store.ChangeType, names ...string) {
				c := commitOf(names...)
				for i, name := range names {
					c.Changes[i].Type, c.Changes[i].Prior, c.Changes[i].Object = kind, name, strings.ToUpper(name)
				}
				h.Commit(c)
			}
			change(store.Modification, "a", "b")
			assert.Equal(t, "bBaA", held())
			change(store.Addition, "c")
			assert.Equal(t, "bBaA", held(), "an Addition has no object before")
			change(store.Deletion, "d")
			assert.Equal(t, "dDbB", held())
			change(store.Modification, "e", "f", "g", "h", "i", "j", "k", "l")
			assert.Equal(t, "lLkKjJ", held())
		})
	}
	h := &history[string]{size: 3}
	h.Commit(commitOf("a"))
	assert.False(t, h.last(1, everything)[0].held)
}

func TestRateIsThatOfTheLastTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := func(h *history[string]) float64 { _, r, _ := h.count(); return r }
		h := &history[string]{size: 1}
		assert.Zero(t, rate(h))
		for range 20 {
			h.Commit(commitOf("a", "b", "c"))
			<-time.After(time.Second)
		}
		assert.InDelta(t, 3, rate(h), 1e-9)
		<-time.After(5 * time.Second)
		assert.InDelta(t, 1.5, rate(h), 1e-9)
		<-time.After(time.Hour)
		assert.Zero(t, rate(h))
		h.Commit(commitOf("a"))
		require.Zero(t, rate(h), "a second that is not over does not count")
	})
}

func TestBadgeNamesReadinessAndStaleness(t *testing.T) {
	for want, i := range map[string]Informer{
		"ready":                      {Ready: true, StaleSeconds: 0.9},
		"ready, stale for 6 s":       {Ready: true, StaleSeconds: 6.9},
		"not ready, stale for 3 min": {StaleSeconds: 200},
		"not ready, stale for 2 h":   {StaleSeconds: 7200},
		"not ready":                  {},
	} {
		assert.Equal(t, want, informerBadge(i).Text)
	}
}

func TestArrowFromTheServerIsBrokenWithoutAWatch(t *testing.T) {
	broken := time.Now()
	for name, test := range map[string]struct {
		reflectors []Reflector
		broken     bool
		phase      string
	}{
		"no reflector":   {nil, false, ""},
		"first list":     {[]Reflector{{Phase: "Listing", Broken: broken}}, false, "Listing"},
		"watch":          {[]Reflector{{Phase: "Watching", Synced: true}}, false, "Watching"},
		"new watch":      {[]Reflector{{Phase: "Opening", Synced: true, Broken: broken}}, true, "Opening"},
		"back-off":       {[]Reflector{{Phase: "BackingOff", Broken: broken}}, true, "BackingOff"},
		"one of several": {[]Reflector{{Phase: "Watching", Synced: true}, {Phase: "BackingOff", Synced: true, Broken: broken}}, true, "BackingOff"},
		"stopped":        {[]Reflector{{Phase: "Stopped", Synced: true, Broken: broken}}, true, "Stopped"},
	} {
		p := newPipeline(Informer{Reflectors: test.reflectors})
		assert.Equal(t, test.broken, p.Broken, name)
		assert.Equal(t, test.phase, p.Phase, name)
	}
}

func TestLanesAreBounded(t *testing.T) {
	p := newPipeline(Informer{Objects: 10, Subscribers: append(make([]Subscriber, maxLanes), Subscriber{Keys: 1})})
	assert.Len(t, p.Lanes, maxLanes)
	assert.Equal(t, 1, p.More)
	for keys, want := range map[int]int{0: 0, 1: 15, 10: barWidth, 30: barWidth} {
		assert.Equal(t, want, fill(keys, 10))
	}
	assert.Equal(t, 4, fill(1, 1000))
}

func TestReflectorHasItsScope(t *testing.T) {
	for want, state := range map[string]informer.ScopeState{
		"":               {},
		"namespace shop": {Scope: store.Scope{Namespace: "shop"}},
	} {
		assert.Equal(t, want, newReflector(state).Scope)
	}
}
