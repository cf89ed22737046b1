package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawMembers(t *rapid.T, least int) []string {
	var members []string
	for i := range rapid.IntRange(least, 9).Draw(t, "members") {
		members = append(members, fmt.Sprintf("member-%d-%d", i, rapid.IntRange(0, 1000).Draw(t, "suffix")))
	}
	slices.Sort(members)
	return members
}

func count(members, holders []string) map[string]int {
	counts := map[string]int{}
	for _, m := range members {
		counts[m] = 0
	}
	for _, h := range holders {
		if _, ok := counts[h]; ok {
			counts[h]++
		}
	}
	return counts
}

func TestAssignmentIsEvenAndMovesAsLittleAsCanBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 1)
		holders := rapid.SliceOfN(rapid.SampledFrom(append([]string{"", "gone"}, members...)), 1, 60).Draw(t, "holders")
		target := assign(members, holders)
		n, m := len(holders), len(members)
		moved := 0
		for i := range target {
			require.Contains(t, members, target[i])
			if target[i] != holders[i] {
				moved++
			}
		}
		counts := count(members, target)
		for _, c := range counts {
			require.GreaterOrEqual(t, c, n/m)
			require.LessOrEqual(t, c, (n+m-1)/m)
		}
		// What has to move: all that no member holds, and what is too much for one. As many
		// may keep one more as there are such shares.
		least, more := n/m, n%m
		has := count(members, holders)
		stays := 0
		for _, c := range has {
			stays += min(c, least)
			if c > least && more > 0 {
				stays++
				more--
			}
		}
		require.Equal(t, n-stays, moved)
		require.Equal(t, target, assign(members, target), "it changes what is as it should be")
	})
}

// Members act on what they see, which is a moment of the same history, and each only for
// itself: in whatever order they do, they end where they would have if one had done all.
func TestWhatOthersHaveDoneAlreadyChangesNoPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t, 1)
		holders := rapid.SliceOfN(rapid.SampledFrom(append([]string{""}, members...)), 1, 40).Draw(t, "holders")
		plan := assign(members, holders)
		state := slices.Clone(holders)
		for {
			var todo []int
			for i := range state {
				if state[i] != plan[i] {
					todo = append(todo, i)
				}
			}
			if len(todo) == 0 {
				break
			}
			i := rapid.SampledFrom(todo).Draw(t, "next")
			if state[i] != "" {
				state[i] = "" // given back
			} else {
				state[i] = plan[i] // taken
			}
			require.Equal(t, plan, assign(members, state))
		}
	})
}

func TestNobodyGetsShardsOfNobody(t *testing.T) {
	assert.Equal(t, []string{"", ""}, assign(nil, []string{"a", ""}))
}
