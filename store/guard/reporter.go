package guard

import (
	"errors"
	"sync"
)

// Reporter receives the errors of guards. Make one with [Report] or [Fail]. It may serve any number
// of guards.
type Reporter struct {
	tell func(error)

	mu     sync.Mutex // protects guards
	guards []interface{ Check() error }
}

// Report returns a Reporter that calls tell with each error, a [*MutationError] or an
// [*EncodeError]. The goroutine that found the error calls it. That may be the writer of the cache,
// so tell must not write to the cache.
func Report(tell func(error)) *Reporter { return &Reporter{tell: tell} }

// TB is the part of a test that [Fail] needs: every [testing.TB] is one. Errorf takes any, as in
// testing.TB.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// Fail returns a Reporter that fails a test for each error. It checks all guards when the test ends, and
// reports nothing after that, because package testing ends the process for an error of a completed test.
func Fail(t TB) *Reporter {
	t.Helper()
	var mu sync.Mutex // held during Errorf, so that the test does not end meanwhile
	ended := false
	r := Report(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Errorf("%v", err)
		}
	})
	t.Cleanup(func() {
		err := r.Check()
		mu.Lock()
		defer mu.Unlock()
		ended = true
		if err != nil {
			t.Errorf("%v", err)
		}
	})
	return r
}

func (r *Reporter) add(g interface{ Check() error }) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guards = append(r.guards, g)
}

// Check checks all guards: see [Guard.Check].
func (r *Reporter) Check() error {
	r.mu.Lock()
	guards := r.guards
	r.mu.Unlock()
	var errs []error
	for _, g := range guards {
		errs = append(errs, g.Check())
	}
	return errors.Join(errs...)
}
