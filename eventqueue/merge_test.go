package eventqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// These tests hold queue-E3 and queue-E6.

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
					q.Release() // put back without a back-off
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

// told is an event of the model: what the table in the package documentation is
// about.
type told struct {
	kind    Type
	uid     types.UID
	object  string // its version
	prior   string // its version, or empty if nothing was acknowledged
	initial bool
	origin  Origin
	tried   bool // the object was handed out
	self    bool // this event was handed out
}

func (e told) String() string {
	return fmt.Sprintf("%v %s>%s initial=%t %v", e.kind, e.prior, e.object, e.initial, e.origin)
}

// cell is one line of the table. For the last event that waits and the next one it
// says what they become. The first cell that matches counts.
type cell struct {
	name    string
	matches func(last, next told) bool
	becomes func(last, next told) []told
}

func both(last, next told) []told { return []told{last, next} }

func nothing(told, told) []told { return nil }

// from returns the next event, starting where the last one did.
func from(last, next told, kind Type) []told {
	next.kind, next.prior = kind, last.prior
	next.initial = next.initial || last.initial
	next.tried = next.tried || last.tried
	return []told{next}
}

func as(kind Type) func(last, next told) []told {
	return func(last, next told) []told { return from(last, next, kind) }
}

// table is the table of the package documentation under KeepLatest.
var table = []cell{
	{"anything + resync", func(_, n told) bool { return n.origin == Resync },
		func(l, _ told) []told { return []told{l} }},
	{"addition, tried + deletion", func(l, n told) bool { return l.kind == Addition && l.tried && n.kind == Deletion }, as(Deletion)},
	{"addition, initial + deletion", func(l, n told) bool { return l.kind == Addition && l.initial && n.kind == Deletion }, as(Deletion)},
	{"addition + deletion", func(l, n told) bool { return l.kind == Addition && n.kind == Deletion }, nothing},
	{"addition + modification", func(l, n told) bool { return l.kind == Addition && n.kind == Modification }, as(Addition)},
	{"modification + modification", func(l, n told) bool { return l.kind == Modification && n.kind == Modification }, as(Modification)},
	{"modification + deletion", func(l, n told) bool { return l.kind == Modification && n.kind == Deletion }, as(Deletion)},
	{"deletion, tried + addition", func(l, n told) bool { return l.kind == Deletion && l.self && l.uid == n.uid && l.uid != "" }, both},
	{"deletion + addition of an unknown UID", func(l, n told) bool { return l.kind == Deletion && (l.uid == "" || n.uid == "") }, both},
	{"deletion + addition of another UID", func(l, n told) bool { return l.kind == Deletion && l.uid != n.uid }, both},
	{"deletion + addition, acknowledged before", func(l, n told) bool { return l.kind == Deletion && l.prior != "" }, as(Modification)},
	{"deletion + addition, never acknowledged", func(l, n told) bool { return l.kind == Deletion && l.prior == "" }, as(Addition)},
}

// tableModel keeps the events of one key as the table says.
type tableModel struct {
	table   []cell
	used    map[string]int
	waiting []told
	dropped int
	forget  bool // that only the newest tried incarnation is kept
}

// Start implements [store.Follower].
func (m *tableModel) Start(*store.Snapshot[*thing]) {}

// Commit implements [store.Follower].
func (m *tableModel) Commit(commit *store.Commit[*thing]) {
	for _, c := range commit.Changes {
		e := told{kind: c.Type, uid: c.Version.UID, object: c.Object.version, initial: commit.Initial, origin: commit.Origin}
		if c.Prior != nil {
			e.prior = c.Prior.version
		}
		m.add(e)
	}
}

func (m *tableModel) add(next told) {
	if len(m.waiting) == 0 {
		m.waiting = []told{next}
		return
	}
	last := m.waiting[len(m.waiting)-1]
	for _, cell := range m.table {
		if !cell.matches(last, next) {
			continue
		}
		m.used[cell.name]++
		m.waiting = m.waiting[: len(m.waiting)-1 : len(m.waiting)-1]
		switch become := cell.becomes(last, next); len(become) {
		case 1:
			m.add(become[0]) // which may now merge with the event before
		case 2:
			m.waiting = append(m.waiting, become...)
		}
		break
	}
	if m.forget {
		return
	}
	seen := false
	for i, e := range slices.Backward(m.waiting) {
		if e.kind != Deletion || e.prior != "" {
			continue
		}
		if seen {
			m.used[drops]++
			m.dropped++
			m.waiting = slices.Delete(m.waiting, i, i+1)
		}
		seen = true
	}
}

func (m *tableModel) requeued(tried []told) {
	news := m.waiting
	m.waiting = nil
	for _, e := range tried {
		e.tried, e.self = true, true
		m.waiting = append(m.waiting, e)
	}
	for _, e := range news {
		m.add(e)
	}
}

const drops = "older tried incarnations are dropped"

// follow runs a random history on a collection and on the model, and says where they
// differ first.
func (m *tableModel) follow(seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	c := newThings(WithCompaction(KeepLatest))
	defer c.Close()
	defer c.cache.Follow(m)()
	uids := []types.UID{"u", "u", "u", "v", "v", ""}[:1+random.IntN(6)]
	listed := false
	var out *Queue[*thing]
	var tried []told
	for version := 1; version < 40; version++ {
		object := &thing{"a", uids[random.IntN(len(uids))], strconv.Itoa(version)}
		switch op := random.IntN(12); {
		case op < 3:
			_ = c.Add(object)
		case op < 6:
			if held, ok := c.Cache().Get(key("a")); ok {
				object.uid = held.uid
			}
			_ = c.Delete(object)
		case op == 6 && !listed:
			listed = true
			_ = c.Replace([]*thing{object}, object.version)
		case op == 7:
			c.Resync()
			held, ok := c.Cache().Get(key("a"))
			if ok && (len(m.waiting) > 0 || out == nil) {
				m.add(told{kind: Modification, uid: held.uid, object: held.version, prior: held.version, origin: Resync})
			}
		case out == nil && op < 10:
			if out, _ = tryTake(c); out != nil {
				tried, m.waiting = m.waiting, nil
			}
		case out != nil && op == 10:
			m.requeued(tried)
			out.Release()
			out = nil
		case out != nil:
			out.Done()
			out = nil
		}
		if err := m.compare(c); err != nil {
			return fmt.Errorf("seed %d, step %d: %w", seed, version, err)
		}
	}
	return nil
}

func (m *tableModel) compare(c *Collection[*thing]) error {
	c.Len() // queues what the last commit left in the buffer
	var have []string
	if k := c.keys[key("a")]; k != nil {
		for _, r := range k.waiting.events {
			e := r.Event
			got := told{kind: e.Type, object: e.Object.version, initial: e.Initial, origin: e.Origin}
			if e.PriorKnown {
				got.prior = e.Prior.version
			}
			have = append(have, got.String())
		}
	}
	var want []string
	for _, e := range m.waiting {
		want = append(want, e.String())
	}
	if !slices.Equal(have, want) {
		return fmt.Errorf("the collection keeps %q, the table says %q", have, want)
	}
	if have, want := c.Stats().Dropped, m.dropped; have != uint64(want) {
		return fmt.Errorf("%d dropped, the table says %d", have, want)
	}
	return nil
}

const histories = 3000

func TestCollectionMergesByTheTable(t *testing.T) {
	used := map[string]int{}
	for seed := range uint64(histories) {
		require.NoError(t, (&tableModel{table: table, used: used}).follow(seed))
	}
	for _, cell := range table {
		assert.NotZero(t, used[cell.name], "no history came by %s", cell.name)
	}
	assert.NotZero(t, used[drops])
}

// TestEveryCellOfTheTableIsTold shows that the test above would notice a collection
// that got one cell wrong: it differs from a table that has another outcome there.
func TestEveryCellOfTheTableIsTold(t *testing.T) {
	differs := func(mutant func() *tableModel) bool {
		for seed := range uint64(histories) {
			if mutant().follow(seed) != nil {
				return true
			}
		}
		return false
	}
	outcomes := map[string]func(last, next told) []told{
		"both": both, "nothing": nothing, "the later": func(_, n told) []told { return []told{n} },
		"the earlier": func(l, _ told) []told { return []told{l} },
		"addition":    as(Addition), "modification": as(Modification), "deletion": as(Deletion),
	}
	for i, cell := range table {
		t.Run(cell.name, func(t *testing.T) {
			for outcome, becomes := range outcomes {
				mutated := slices.Clone(table)
				mutated[i].becomes = becomes
				if sameOutcome(cell.name, outcome) {
					continue
				}
				assert.True(t, differs(func() *tableModel { return &tableModel{table: mutated, used: map[string]int{}} }),
					"nobody notices if it becomes %s", outcome)
			}
		})
	}
	t.Run(drops, func(t *testing.T) {
		assert.True(t, differs(func() *tableModel { return &tableModel{table: table, used: map[string]int{}, forget: true} }))
	})
}

// sameOutcome reports whether an outcome is what the cell has anyway.
func sameOutcome(cell, outcome string) bool {
	same := map[string][]string{
		"anything + resync":                        {"the earlier"},
		"addition, tried + deletion":               {"deletion"},
		"addition, initial + deletion":             {"deletion"},
		"addition + deletion":                      {"nothing"},
		"addition + modification":                  {"addition"},
		"modification + modification":              {"modification"},
		"modification + deletion":                  {"deletion"},
		"deletion, tried + addition":               {"both"},
		"deletion + addition of an unknown UID":    {"both"},
		"deletion + addition of another UID":       {"both"},
		"deletion + addition, acknowledged before": {"modification"},
		"deletion + addition, never acknowledged":  {"addition"},
	}
	return slices.Contains(same[cell], outcome)
}
