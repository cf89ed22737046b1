package simulate

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func TestCulpritsAreTheGoroutinesThatKeepTimeFromPassing(t *testing.T) {
	const stacks = `goroutine 1 [chan receive]:
testing.(*T).Run(0x1)

goroutine 20 [synctest.Run]:
internal/synctest.Run(0x1)

goroutine 21 [synctest.Wait, synctest bubble 3]:
internal/synctest.Wait()

goroutine 22 [select (durable), synctest bubble 3]:
example.com/operator.wait()

goroutine 23 [IO wait, synctest bubble 3]:
net.(*netFD).Accept(0x1)
example.com/operator.serveMetrics()

goroutine 24 [chan receive, synctest bubble 3]:
example.com/operator.global()

goroutine 25 [runnable, synctest bubble 3]:
example.com/operator.spin()
`
	said := culprits(stacks, nil)
	assert.Contains(t, said, `it waits for a socket or a pipe. What to do: turn listeners off (metrics and health probes on address "0")`)
	assert.Contains(t, said, "serveMetrics")
	assert.Contains(t, said, "it waits for a channel that was made outside of the simulation. What to do: make the channel in Scenario.Operator")
	assert.Contains(t, said, "it never blocks. What to do: let its loop wait")
	assert.NotContains(t, said, "operator.wait")
	assert.NotContains(t, said, "synctest.Wait()")
	assert.NotContains(t, said, "testing.(*T).Run")
	assert.Contains(t, culprits("goroutine 1 [running]:\nmain.main()", nil), "No goroutine of the simulation waits for anything outside of it")
}

func TestARunInWhichNothingMovesIsEnded(t *testing.T) {
	hung := make(chan []string, 1)
	w := watchWith(time.Millisecond, func(lines, _ []string) {
		select {
		case hung <- lines:
		default:
		}
	})
	defer w.stop()
	p := w.begin(schedule{{verb: slow}})
	assert.Equal(t, []string{"slow"}, <-hung)
	p.end()
}

// TestCodeOfTheTestThatDoesNotReturnIsNamed blocks a run for as long as the watchdog has not said in which code.
func TestCodeOfTheTestThatDoesNotReturnIsNamed(t *testing.T) {
	for want, scenario := range map[string]func(wait func()) Scenario{
		"step 2 (wait for a result)": func(wait func()) Scenario {
			return Scenario{Steps: []Step{Create(parent()), {Name: "wait for a result", Do: func(*reflectortest.Server) error { wait(); return nil }}}}
		},
		"When of step 1 (wait)": func(wait func()) Scenario {
			return Scenario{Steps: []Step{{Name: "wait", When: func(*reflectortest.Server) bool { wait(); return true }, Do: func(*reflectortest.Server) error { return nil }}}}
		},
		"step 1 (create ConfigMap default/a)": func(wait func()) Scenario { // in a hook that it meets
			hook := reflectortest.WithAdmission(func(context.Context, *reflectortest.Admission[*corev1.ConfigMap]) error { wait(); return nil })
			return Scenario{Server: []reflectortest.Option{hook}, Steps: []Step{Create(parent())}}
		},
		"a player": func(wait func()) Scenario {
			return Scenario{Steps: []Step{Create(parent())}, Players: []Player{func(*reflectortest.Server) (time.Duration, error) { wait(); return 0, nil }}}
		},
		"Scenario.Outside": func(wait func()) Scenario {
			return Scenario{Outside: func(*Scenario) func() []string { wait(); return nil }}
		},
		"the function that Scenario.Outside returned": func(wait func()) Scenario {
			return Scenario{Outside: func(*Scenario) func() []string { return func() []string { wait(); return nil } }}
		},
	} {
		t.Run(want, func(t *testing.T) {
			named, said := make(chan struct{}), ""
			w := watchWith(time.Millisecond, func(lines, calls []string) {
				if said == "" && slices.Contains(calls, want) {
					said = hanging("TestOperator", lines, calls)
					close(named)
				}
			})
			s := scenario(func() { <-named })
			s.Operator = polling(keep)
			s.run(t, w, nil, nil)
			w.stop()
			assert.Contains(t, said, want+" does not return, and until then the operator stands still. What to do: let it neither wait")
			assert.Contains(t, said, "TestCodeOfTheTestThatDoesNotReturnIsNamed.func")
		})
	}
}

// TestAStepThatWaitsForItsOperatorIsNamed has no timer left that keeps time going.
func TestAStepThatWaitsForItsOperatorIsNamed(t *testing.T) {
	w := watch(t.Name())
	defer w.stop()
	s := Scenario{Operator: polling(keep), Steps: []Step{Create(parent()), {Name: "wait for a result", Do: func(s *reflectortest.Server) error {
		return s.WaitFor(context.Background(), func() bool { return false })
	}}}}
	defer func() {
		assert.Contains(t, fmt.Sprint(recover()), "deadlock: all goroutines in bubble are blocked: step 2 (wait for a result) does not return, and until then the operator stands still")
	}()
	s.run(t, w, nil, nil)
}
