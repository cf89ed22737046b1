package inspect

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/store"
)

func everything(key) bool { return true }

func commitOf(names ...string) *store.Commit[string] {
	c := &store.Commit[string]{Origin: store.Watch}
	for _, name := range names {
		c.Changes = append(c.Changes, store.Change[string]{Type: store.Modification, Key: store.Key{Name: name}})
	}
	return c
}

func names(changes []Change) string {
	var all string
	for _, c := range changes {
		all += c.Key
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
			total, _ := h.count()
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

func TestRateIsThatOfTheLastTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := func(h *history[string]) float64 { _, r := h.count(); return r }
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
