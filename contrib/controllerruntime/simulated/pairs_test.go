package simulated

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A pair is an operator with a bug, and the same without it.
type pair struct {
	name     string
	operator func(mgr ctrl.Manager, buggy bool) error                   // adds the controllers of one version
	elected  bool                                                       // only one process at a time runs them
	main     func(buggy bool) func(context.Context, *rest.Config) error // instead of operator
	outside  func(buggy bool) func(*simulate.Scenario) func() []string  // instead of operator in a simulation
	scenario simulate.Scenario                                          // without the server and the operator
	line     string                                                     // a disturbance that shows the bug
	says     string                                                     // a part of what simulate reports about it
}

func (p pair) version(buggy bool) simulate.Scenario {
	s := p.scenario
	s.Server = served
	setUp := func(mgr ctrl.Manager) error { return p.operator(mgr, buggy) }
	switch {
	case p.main != nil:
		s.Operator = p.main(buggy)
	case p.outside != nil:
		s.Outside = p.outside(buggy)
	case p.elected:
		s.Operator = run(setUp, elected)
	default:
		s.Operator = run(setUp)
	}
	return s
}

func pairs() []pair {
	return slices.Concat(cachePairs, memoryPairs, cleanupPairs, clientPairs, retryPairs, leaderPairs)
}

func TestSimulateFindsTheBug(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			if most != 0 {
				t.Skip("SKIPPED under the race detector: TestALineFailsInTheSameWayEachTime plays the line")
			}
			findings := simulate.Find(t, p.version(true))
			at := slices.IndexFunc(findings, func(f simulate.Finding) bool {
				return f.Line == p.line || slices.Contains(f.Others, p.line)
			})
			require.GreaterOrEqualf(t, at, 0, "no finding has the line %q: %+v", p.line, findings)
			assert.Contains(t, strings.Join(findings[at].Failures, "\n"), p.says)
			assert.Falsef(t, findings[at].Unstable, "%+v", findings[at])
		})
	}
}

func TestSimulateFindsNothingInTheCorrectOperator(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			correct := p.version(false)
			correct.Most = most
			simulate.Explore(t, correct)
		})
	}
}

func TestALineFailsInTheSameWayEachTime(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var first []string
			for i := range plays {
				_, failures := simulate.Play(t, p.version(true), p.line)
				if i == 0 {
					first = failures
				}
				require.Contains(t, strings.Join(failures, "\n"), p.says)
				require.Equalf(t, first, failures, "play %d", i+1)
			}
		})
	}
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	// When a queue of controller-runtime is shut down, a waiter may leave that it has counted, and it sends to
	// nobody for ever.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleReadyItems"))
}
