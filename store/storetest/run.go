package storetest

import (
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/store"
)

// patience is how long a walk may take whose body writes: one that holds a lock
// takes for ever.
var patience = 10 * time.Second

// clause is one sentence of the contract and how to tell that it holds.
type clause struct {
	name  string // the subtest's
	rule  string // printed when it fails
	check func(*testing.T, *subject)
}

// modelClause is the subtest that writes at random.
const modelClause = "any sequence of writes leads where a map does"

// Run tests whether a store fulfils the contract of a [store.Store], in one subtest
// a clause. It calls open for a fresh, empty store each time, together with a
// Reader of what the store holds; neither may be nil.
func Run(t *testing.T, open func() (store.Store[*Object], store.Reader[*Object])) {
	t.Helper()
	run(t, open, storing, replacing, reading, versions, rejecting, concurrency)
}

// RunBatches is Run for a store with batches of its own, and tests these as well. It fails
// for a store without: see [store.Begin].
func RunBatches(t *testing.T, open func() (store.Store[*Object], store.Reader[*Object])) {
	t.Helper()
	run(t, open, storing, replacing, reading, versions, rejecting, batching, concurrency)
}

func run(t *testing.T, open func() (store.Store[*Object], store.Reader[*Object]), clauses ...[]clause) {
	t.Helper()
	for _, c := range slices.Concat(clauses...) {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("the contract: %s", c.rule)
				}
			}()
			defer failOnPanic(t)
			c.check(t, newSubject(t, open))
		})
	}
	t.Run(modelClause, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { againstModel(rt, newSubject(rt, open)) })
	})
}

// failOnPanic is to be deferred. A panic of the store under test fails its clause,
// and the others still run.
func failOnPanic(t *testing.T) {
	if value := recover(); value != nil {
		t.Errorf("panic: %v\n%s", value, debug.Stack())
	}
}

// within runs f in a goroutine of its own, so that one that blocks is a failure
// with a reason instead of a test that never ends.
func within(t *testing.T, f func(), orElse string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer failOnPanic(t)
		f()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("still not done after %v: %s", patience, orElse)
	}
}
