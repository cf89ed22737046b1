package storetest

import (
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kubereflector/kubereflector/store"
)

// patience is the longest time for an iteration whose body writes. An iteration that holds a lock
// would never end.
var patience = 10 * time.Second

// clause is one sentence of the contract, and its test.
type clause struct {
	name  string // name of the subtest
	rule  string // printed when it fails
	check func(*testing.T, *subject)
}

// modelClause is the subtest that writes at random.
const modelClause = "any sequence of writes leads where a map does"

// Run tests whether a store fulfils the contract of a [store.Store]. Each clause is a subtest. For
// each it calls open, which must return a new, empty store and a Reader of its objects; neither may
// be nil.
func Run(t *testing.T, open func() (store.Store[*Object], store.Reader[*Object])) {
	t.Helper()
	run(t, open, storing, replacing, reading, versions, rejecting, concurrency)
}

// RunBatches is Run for a store with its own batches, and tests these as well. It fails for a store
// without them: see [decorate.BeginWatch].
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

// failOnPanic fails a clause if the store under test panics, so that the other clauses still run.
// Defer it.
func failOnPanic(t *testing.T) {
	if value := recover(); value != nil {
		t.Errorf("panic: %v\n%s", value, debug.Stack())
	}
}

// within runs f in its own goroutine. If f blocks, the test fails with a reason instead of never
// ending.
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
