package eventqueue

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var compactions = map[string]Compaction{"KeepAll": KeepAll, "KeepLatest": KeepLatest}

// TestMergeTable has a row for each line of the table in the package
// documentation. A row acknowledges what is in acked, hands out and fails what
// is in tried, and then expects the result of the rest.
func TestMergeTable(t *testing.T) {
	put := func(uid string, version int) func(*Collection[*thing]) error {
		return func(c *Collection[*thing]) error { return c.Add(at("a", uid, version)) }
	}
	remove := func(uid string, version int) func(*Collection[*thing]) error {
		return func(c *Collection[*thing]) error { return c.Delete(at("a", uid, version)) }
	}
	listed := func(uid string, version int) func(*Collection[*thing]) error {
		return func(c *Collection[*thing]) error { return c.Replace([]*thing{at("a", uid, version)}, "1") }
	}
	resync := func(c *Collection[*thing]) error { c.Resync(); return nil }
	type steps = []func(*Collection[*thing]) error

	for _, row := range []struct {
		name               string
		acked, tried, then steps
		latest, all        []string
	}{
		{"addition", nil, nil, steps{put("u", 1)}, []string{"+1"}, []string{"+1"}},
		{"addition, untried + deletion", nil, nil, steps{put("u", 1), remove("u", 2)}, nil, []string{"+1", "-2(1)"}},
		{"addition, untried + modifications + deletion", nil, nil, steps{put("u", 1), put("u", 2), put("u", 3), remove("u", 4)}, nil, []string{"+1", "1>2", "2>3", "-4(3)"}},
		{"addition, tried + deletion", nil, steps{put("u", 1)}, steps{remove("u", 2)}, []string{"-2"}, []string{"+1", "-2(1)"}},
		{"addition, tried + modification + deletion", nil, steps{put("u", 1)}, steps{put("u", 2), remove("u", 3)}, []string{"-3"}, []string{"+1", "1>2", "-3(2)"}},
		{"addition, initial + deletion", nil, nil, steps{listed("u", 1), remove("u", 2)}, []string{"-2"}, []string{"+1", "-2(1)"}},
		{"addition, initial + modification + deletion", nil, nil, steps{listed("u", 1), put("u", 2), remove("u", 3)}, []string{"-3"}, []string{"+1", "1>2", "-3(2)"}},
		{"addition + modification", nil, nil, steps{put("u", 1), put("u", 2)}, []string{"+2"}, []string{"+1", "1>2"}},
		{"modification + modification", steps{put("u", 1)}, nil, steps{put("u", 2), put("u", 3)}, []string{"1>3"}, []string{"1>2", "2>3"}},
		{"modification, tried + modification", steps{put("u", 1)}, steps{put("u", 2)}, steps{put("u", 3)}, []string{"1>3"}, []string{"1>2", "2>3"}},
		{"modification + deletion", steps{put("u", 1)}, nil, steps{put("u", 2), remove("u", 3)}, []string{"-3(1)"}, []string{"1>2", "-3(2)"}},
		{"deletion + addition of the same UID, acknowledged before", steps{put("u", 1)}, nil, steps{remove("u", 2), put("u", 3)}, []string{"1>3"}, []string{"-2(1)", "+3"}},
		{"deletion + addition of the same UID, never acknowledged", nil, nil, steps{listed("u", 1), remove("u", 2), put("u", 3)}, []string{"+3"}, []string{"+1", "-2(1)", "+3"}},
		{"deletion, tried + addition of the same UID", steps{put("u", 1)}, steps{remove("u", 2)}, steps{put("u", 3)}, []string{"-2(1)", "+3"}, []string{"-2(1)", "+3"}},
		{"deletion + addition of another UID", steps{put("u", 1)}, nil, steps{remove("u", 2), put("v", 3)}, []string{"-2(1)", "+3"}, []string{"-2(1)", "+3"}},
		{"re-creation seen in one step", steps{put("u", 1)}, nil, steps{put("v", 3)}, []string{"-1(1)", "+3"}, []string{"-1(1)", "+3"}},
		{"deletion + addition of unknown UID", steps{put("", 1)}, nil, steps{remove("", 2), put("", 3)}, []string{"-2(1)", "+3"}, []string{"-2(1)", "+3"}},
		{"[deletion a, addition b], untried + deletion b", steps{put("u", 1)}, nil, steps{put("v", 2), remove("v", 3)}, []string{"-1(1)"}, []string{"-1(1)", "+2", "-3(2)"}},
		{"[deletion a, addition b], tried + deletion b", steps{put("u", 1)}, steps{put("v", 2)}, steps{remove("v", 3)}, []string{"-1(1)", "-3"}, []string{"-1(1)", "+2", "-3(2)"}},
		{"acknowledged, newest tried, current", steps{put("u", 1)}, steps{put("v", 2)}, steps{remove("v", 3), put("w", 4)}, []string{"-1(1)", "-3", "+4"}, []string{"-1(1)", "+2", "-3(2)", "+4"}},
		{"addition + resync", nil, nil, steps{put("u", 1), resync}, []string{"+1"}, []string{"+1"}},
		{"modification + resync", steps{put("u", 1)}, nil, steps{put("u", 2), resync}, []string{"1>2"}, []string{"1>2"}},
		{"deletion + resync", steps{put("u", 1)}, nil, steps{remove("u", 2), resync}, []string{"-2(1)"}, []string{"-2(1)"}},
		{"resync + modification", steps{put("u", 1)}, nil, steps{resync, put("u", 2)}, []string{"1>2"}, []string{"1>1", "1>2"}},
		{"resync + deletion", steps{put("u", 1)}, nil, steps{resync, remove("u", 2)}, []string{"-2(1)"}, []string{"1>1", "-2(1)"}},
	} {
		for name, policy := range compactions {
			t.Run(row.name+"/"+name, func(t *testing.T) {
				c := newThings(WithCompaction(policy))
				run := func(s steps) {
					for _, step := range s {
						require.NoError(t, step(c))
					}
				}
				run(row.acked)
				if row.acked != nil {
					take(t, c).Done()
				}
				run(row.tried)
				if row.tried != nil {
					q := take(t, c)
					before := collect(q)
					defer func() { assert.Equal(t, before, collect(q), "a queue never changes") }()
					q.Requeue() // put back without a back-off
				}
				run(row.then)
				want := row.latest
				if policy == KeepAll {
					want = row.all
				}
				if want == nil {
					nothingReady(t, c)
					assert.Zero(t, c.Len(), "an empty queue is never kept")
					return
				}
				assert.Equal(t, want, words(collect(take(t, c))))
			})
		}
	}
}
