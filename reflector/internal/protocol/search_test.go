package protocol

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var depth = flag.Int("depth", 3, "the number of actions of the server in the exhaustive search; 5 takes some minutes and gigabytes")

// TestSearch visits every conversation of a reflector and a server with two objects, in which the
// server takes up to -depth actions, each at any moment: it writes or deletes an object, compacts
// its history, is restored from a backup, breaks the watch, sends a bookmark, or refuses a request.
// In each state the search checks:
//
//   - The store equals a state that the server had, and never goes back, unless the server did.
//   - If the server takes no more actions, the store soon equals the server, and stays equal.
//   - The reflector sends few requests without a pause.
//
// The package documentation of reflector names the restores that no reflector can detect. The
// search finds them, too, and only checks that the reflector goes on.
func TestSearch(t *testing.T) {
	for _, o := range []Options{
		{},
		{PageSize: 1, AlwaysPage: true},
		{WatchLists: true},
		{WatchLists: true, PageSize: 1},
		{PageSize: 1, AsksVersion: true},
	} {
		for _, lags := range []bool{false, true} {
			t.Run(fmt.Sprintf("pages=%d,watchLists=%v,asksVersion=%v,lags=%v", o.PageSize, o.WatchLists, o.AsksVersion, lags), func(t *testing.T) {
				s := search{visited: map[[2]uint64]int8{}, good: map[[2]uint64]bool{}}
				w := world{p: New(o), lags: lags, left: int8(*depth), now: time.Unix(1_000_000, 0)}
				w.write(0, false)
				w.write(1, false)
				w.step(Input{Kind: Started})
				if err := s.visit(w); err != nil {
					slices.Reverse(s.path)
					t.Fatalf("%v, after:\n%s", err, strings.Join(s.path, "\n"))
				}
				t.Logf("%d states, %d of them after a restore that cannot be detected", len(s.visited), s.undetected)
			})
		}
	}
}

// search is a depth-first search with the states that it has visited.
type search struct {
	// visited maps each state to the highest number of actions left with which it was visited.
	visited    map[[2]uint64]int8
	good       map[[2]uint64]bool // states that lead to a store that equals the server
	undetected int
	path       []string
}

// visit checks a state and all states that follow.
func (s *search) visit(w world) error {
	key := w.key()
	if left, ok := s.visited[key]; ok && left >= w.left {
		return nil
	} else if !ok {
		if err := s.settles(w); err != nil {
			return err
		}
		if w.undetected {
			s.undetected++
		}
	}
	s.visited[key] = w.left
	next := w
	if err := s.follow(&next, w.describe, next.act()); err != nil {
		return err
	}
	if w.left == 0 {
		return nil
	}
	for _, a := range w.actions() {
		next := w
		next.left--
		a.act(&next)
		if err := s.follow(&next, func() string { return a.name }, nil); err != nil {
			return err
		}
	}
	return nil
}

// follow visits the next state. If that fails, or err is not nil, it records the step in the path.
func (s *search) follow(next *world, step func() string, err error) error {
	if err == nil {
		err = s.visit(*next)
	}
	if err != nil {
		s.path = append(s.path, step())
	}
	return err
}

// settles checks that the store equals the server soon after the last action of the server.
func (s *search) settles(w world) error {
	var keys [][2]uint64
	var steps []string
	for range 100 {
		key := w.key()
		if s.good[key] || w.undetected {
			break
		}
		keys = append(keys, key)
		if w.settled() && w.store == w.at(w.rev) {
			break
		}
		steps = append(steps, w.describe())
		if err := w.act(); err != nil {
			slices.Reverse(steps)
			s.path = steps
			return err
		}
		if len(keys) == 100 {
			slices.Reverse(steps)
			s.path = steps[90:]
			return fmt.Errorf("the store has %v and does not become %v", w.store, w.at(w.rev))
		}
	}
	for _, key := range keys {
		s.good[key] = true
	}
	return nil
}
