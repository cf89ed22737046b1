package guard

import (
	"errors"
	"sync"
)

// Reporter is who hears of what guards find. Make one with [Report] or [Fail]; it may
// serve any number of guards.
type Reporter struct {
	tell func(error)

	mu     sync.Mutex // protects guards
	guards []interface{ Check() error }
}

// Report returns a Reporter that calls a function with each error, a [*MutationError] or an
// [*EncodeError], from the goroutine that found it. That may be one that writes the cache:
// the function must not do so itself.
func Report(tell func(error)) *Reporter { return &Reporter{tell: tell} }

// TB is what [Fail] needs of a test: every [testing.TB] is one. Errorf takes any because
// that of a test does.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// Fail returns a Reporter that fails a test for each error, and checks all guards at its
// end.
func Fail(t TB) *Reporter {
	t.Helper()
	r := Report(func(err error) { t.Errorf("%v", err) })
	t.Cleanup(func() {
		if err := r.Check(); err != nil {
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
