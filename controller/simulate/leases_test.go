package simulate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyALeaseThatChangesHandsIsATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			scenario: &Scenario{}, result: &result{}, undisturbed: &result{},
			leases: map[target]holder{}, terms: map[*process]map[target]bool{}, arrived: make(chan struct{}, 1),
		}
		first, second := &process{alive: t.Context()}, &process{alive: t.Context(), number: 1}
		w.processes = []*process{first, second}
		shard := func(n int) target { return target{name: string(rune('a' + n))} }
		for n := range maxTakeovers + 5 {
			w.got(shard(n), first, "one")
			require.True(t, w.noticeLeaders(), "it takes them from nobody")
			<-time.After(time.Second)
		}
		assert.Equal(t, time.Unix(0, first.leads.Load()), time.Now().Add(-(maxTakeovers+5)*time.Second), "it leads from the first one on")
		for n := range maxTakeovers {
			w.got(shard(0), []*process{second, first}[n%2], []string{"two", "one"}[n%2])
			require.True(t, w.noticeLeaders())
		}
		w.got(shard(0), second, "two")
		assert.False(t, w.noticeLeaders())
		assert.Contains(t, w.result.failures[0].text, "its processes have taken a lease from each other 21 times")
	})
}
