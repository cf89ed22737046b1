package byreference

import (
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"
)

var depth = flag.Int("depth", 0, "how many changes the server makes to one key in the exhaustive search, and half as many to two keys; "+
	"0 means 3, or 2 under the race detector; 6 takes minutes on 2 cores")

// TestSearch visits every course of a server with one or two objects, a watch of the metadata and two
// owned watches. At each step one thing happens:
//
//   - The server creates an object, writes it, changes its labels, deletes it, or is restored from a
//     backup. Its next versions then repeat those that it lost.
//   - A watch delivers its next event or a bookmark, or lists again, as it has to after a cut.
//   - A selector is added or removed.
//
// Labels reach the engine as they were before a transform, and the caches of the watches have none.
// After each step the rules of the package documentation are checked against the server's history,
// and where the watches are current, what is shown against the server.
func TestSearch(t *testing.T) {
	changes := *depth
	if changes == 0 {
		changes = 3
		if raceEnabled {
			changes = 2
		}
	}
	for _, c := range []config{
		{keys: 1, changes: changes},
		{keys: 1, changes: changes - 1, overlap: true},
		{keys: 2, changes: (changes + 1) / 2},
	} {
		t.Run(fmt.Sprintf("keys=%d,changes=%d,overlap=%v", c.keys, c.changes, c.overlap), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s := search{config: c, seed: maphash.MakeSeed(), visited: map[uint64]struct{}{}}
			w := world{}
			w.watches[metadata].on, w.watches[first].on = true, true
			if err := s.visit(w); err != nil {
				slices.Reverse(s.path)
				t.Fatalf("%v, after:\n%s", err, strings.Join(s.path, "\n"))
			}
			t.Logf("%d states, %d steps deep, %.1f s", len(s.visited), s.deepest, time.Since(began).Seconds())
		})
	}
}

type config struct {
	keys, changes int
	overlap       bool // the second selector's objects are also the first one's
}

// search is a depth-first search.
type search struct {
	config
	seed    maphash.Seed
	visited map[uint64]struct{} // hashes: two of ten million states share one in 200,000 searches
	deepest int
	level   int
	path    []string // of a failure, the last step first
}

func (s *search) visit(w world) error {
	w = w.canonical()
	key := maphash.Comparable(s.seed, w)
	if !s.overlap { // then both selectors are alike
		key = min(key, maphash.Comparable(s.seed, w.mirrored()))
	}
	if _, ok := s.visited[key]; ok {
		return nil
	}
	s.visited[key] = struct{}{}
	s.level++
	s.deepest = max(s.deepest, s.level)
	defer func() { s.level-- }()
	if err := w.check(s.config); err != nil {
		return err
	}
	for _, step := range w.steps(s.config) {
		next := w
		err := next.take(s.config, step)
		if err == nil {
			err = s.visit(next)
		}
		if err != nil {
			s.path = append(s.path, fmt.Sprintf("%v: %v", step, next.describe(s.config)))
			return err
		}
	}
	return nil
}
