package storetest

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/store"
)

const (
	readers = 2   // goroutines that read while one writes
	rounds  = 250 // of the writer
	crowd   = 20  // objects of each Replace
)

// concurrency has the clauses about readers in other goroutines. They find a bad interleaving by
// many tries; the race detector finds more.
var concurrency = []clause{
	{
		name:  "a resource version is never visible before its objects",
		rule:  "whoever has read a resource version reads every object in a state at least as new",
		check: checkVersionAfterObjects,
	},
	{
		name:  "readers see whole commits while others are made",
		rule:  "every read is of one committed state, from any goroutine: a Replace becomes visible at once",
		check: checkWholeCommits,
	},
}

// whileReading calls write for each round while other goroutines call read. Between two rounds it
// waits for a read, so that each write runs together with reads. It ends early if a read returns an
// error.
func whileReading(t *testing.T, read func() error, write func(round int) error) {
	t.Helper()
	var running sync.WaitGroup
	defer running.Wait()
	done := make(chan struct{})
	defer close(done)
	progress := make(chan struct{}, 1)
	failed := make(chan struct{})
	fail := sync.OnceFunc(func() { close(failed) })
	for range readers {
		running.Go(func() {
			defer fail() // also after a panic
			defer failOnPanic(t)
			for {
				if err := read(); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				case progress <- struct{}{}:
				default:
				}
				runtime.Gosched() // with one processor the writer would wait for a time slice
			}
		})
	}
	for round := range rounds {
		select {
		case <-failed:
			return
		case <-progress:
		}
		if err := write(round); err != nil {
			t.Errorf("a write returned an error while others read: %v", err)
			return
		}
	}
}

// checkVersionAfterObjects writes one object in turns of four writes. The remainder of its resource
// version by four identifies the write.
func checkVersionAfterObjects(t *testing.T, s *subject) {
	const turn = 4
	const added, updated, replaced, deleted = 1, 2, 3, 0
	ways := [turn]string{added: "Add", updated: "Update", replaced: "Replace", deleted: "Delete"}
	a := New("n", "a", "u1", "")
	s.replace(t, strconv.Itoa(turn))
	read := func() error {
		first := s.reader.ResourceVersion()
		got, held := s.reader.Get(keyOf(a))
		walked := 0
		for range s.reader.All() {
			walked++
		}
		last := s.reader.ResourceVersion()
		seen, err := strconv.Atoi(first)
		if err != nil {
			return fmt.Errorf("a reader read the resource version %q, which nobody wrote", first)
		}
		way := ways[seen%turn]
		if held {
			if version, err := strconv.Atoi(got.ResourceVersion); err != nil || version < seen {
				return fmt.Errorf("a reader read the resource version %q of the %s, and after it Get returned %v", first, way, got)
			}
		}
		// The next write may be running. After these two it is no deletion.
		if settled := seen%turn == added || seen%turn == updated; settled && first == last && (!held || walked != 1) {
			return fmt.Errorf("a reader read the resource version %q of the %s twice; in between Get returned %v, %t and All yielded %d objects",
				first, way, got, held, walked)
		}
		if n := s.reader.Len(); n > 1 || walked > 1 {
			return fmt.Errorf("a reader's Len returned %d and All yielded %d objects while at most one was there", n, walked)
		}
		return nil
	}
	whileReading(t, read, func(round int) error {
		version := turn * (round + 1)
		at := func(way int) *Object { return a.At(strconv.Itoa(version + way)) }
		last := at(turn)
		for _, err := range []error{
			s.store.Add(at(added)),
			s.store.Update(at(updated)),
			s.store.Replace([]*Object{at(replaced)}, at(replaced).ResourceVersion),
			s.store.Delete(last),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// checkWholeCommits gives all objects of each Replace one version: an iteration that sees two
// versions saw half of a commit.
func checkWholeCommits(t *testing.T, s *subject) {
	write := func(round int) error {
		version := strconv.Itoa(round + 1)
		all := make([]*Object, crowd)
		for i := range all {
			// Every other list has other names, so that each Replace deletes objects.
			name := strconv.Itoa(i + round%2*crowd/2)
			all[i] = New("n", name, "u-"+name, version)
		}
		return s.store.Replace(all, version)
	}
	read := func() error {
		for name, walk := range walks(s.reader, "n") {
			versions, n := map[string]bool{}, 0
			for _, o := range walk {
				versions[o.ResourceVersion] = true
				n++
			}
			if len(versions) != 1 || n != crowd {
				return fmt.Errorf("a reader's %s yielded %d objects of the versions %v, want %d of one version", name, n, versions, crowd)
			}
		}
		if n := s.reader.Len(); n != crowd {
			return fmt.Errorf("a reader's Len returned %d, want %d: every Replace has so many", n, crowd)
		}
		// Half of the names are in every list.
		if got, ok := s.reader.Get(store.Key{Namespace: "n", Name: strconv.Itoa(crowd / 2)}); !ok || got == nil {
			return fmt.Errorf("a reader's Get returned %v, %t for an object that is in every list", got, ok)
		}
		return nil
	}
	if err := write(0); err != nil {
		t.Fatalf("Replace returned an error: %v", err)
	}
	whileReading(t, read, func(round int) error { return write(round + 1) })
}
