package simulate

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog ends a run in which time does not pass, because a goroutine of the bubble waits for something
// outside of it. It runs outside of the bubbles, in real time.
type watchdog struct {
	progress atomic.Int64 // grows with each message
	quit     chan struct{}
	running  sync.WaitGroup

	mu    sync.Mutex
	plays map[*playing]bool // guarded by mu: what plays now
}

// playing is a schedule that plays.
type playing struct {
	dog  *watchdog
	line schedule
	code atomic.Pointer[string] // what of the test's own code the driver runs, or nil
}

// call runs code of the test, which the watchdog names if it does not return.
func (p *playing) call(what string, code func()) {
	p.code.Store(&what)
	defer p.code.Store(nil)
	code()
}

// patience is how long, in real time, no message may be delivered. It is long, so that neither a busy machine
// nor a debugger ends a run.
const patience = time.Minute

func watch(test string) *watchdog {
	return watchWith(patience, func(lines, calls []string) {
		fmt.Fprintln(os.Stderr, hanging(test, lines, calls))
		os.Exit(2)
	})
}

// watchWith calls hangs when nothing has moved for some time.
func watchWith(patience time.Duration, hangs func(lines, calls []string)) *watchdog {
	w := &watchdog{quit: make(chan struct{}), plays: map[*playing]bool{}}
	w.running.Go(func() {
		tick := time.NewTicker(patience)
		defer tick.Stop()
		last := int64(-1)
		for {
			select {
			case <-w.quit:
				return
			case <-tick.C:
			}
			now := w.progress.Load()
			if lines, calls := w.now(); len(lines) > 0 && now == last {
				hangs(lines, calls)
			}
			last = now
		}
	})
	return w
}

func (w *watchdog) stop() {
	close(w.quit)
	w.running.Wait()
}

// begin notes that a schedule plays, until it ends.
func (w *watchdog) begin(line schedule) *playing {
	w.progress.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &playing{dog: w, line: line}
	w.plays[p] = true
	return p
}

func (p *playing) end() {
	p.dog.mu.Lock()
	defer p.dog.mu.Unlock()
	delete(p.dog.plays, p)
}

// now returns the lines that play, and what they run of the test's own code.
func (w *watchdog) now() (lines, calls []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.plays {
		lines = append(lines, p.line.String())
		if what := p.code.Load(); what != nil {
			calls = append(calls, *what)
		}
	}
	return lines, calls
}

// hanging says which goroutines keep time from passing.
func hanging(test string, lines, calls []string) string {
	buffer := make([]byte, 8<<20)
	stacks := string(buffer[:runtime.Stack(buffer, true)])
	var b strings.Builder
	fmt.Fprintf(&b, "simulate: %s, playing %q: nothing has moved for %v of real time.\n", test, lines, patience)
	b.WriteString(culprits(stacks, calls))
	return b.String()
}

// standstill says what is wrong with code of the test that does not return.
func standstill(call string) string {
	return call + ` does not return, and until then the operator stands still. What to do: let it neither wait nor use a client of the operator. A step waits with Step.When, and a hook of reflectortest.WithAdmission reads from Admission.Server.`
}

// culprits describes the goroutines in bubbles that do not wait for something in their bubble, and those that run
// code of the test.
func culprits(stacks string, calls []string) string {
	var b strings.Builder
	for _, call := range calls {
		fmt.Fprintf(&b, "%s\n\n", standstill(call))
	}
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		if len(calls) > 0 && strings.Contains(stack, "simulate.(*playing).call(") {
			fmt.Fprintf(&b, "%s\n\n", stack)
			continue
		}
		if !strings.Contains(head, "synctest bubble") || strings.Contains(head, "(durable)") || strings.Contains(stack, "synctest.Run") || strings.Contains(stack, "synctest.Wait") {
			continue
		}
		what, advice := "it waits for something outside of the simulation", "give the operator a configuration without it"
		switch {
		case strings.Contains(head, "IO wait"):
			what, advice = "it waits for a socket or a pipe", "turn listeners off (metrics and health probes on address \"0\"), and replace clients of other systems by fakes in memory"
		case strings.Contains(head, "syscall"):
			what, advice = "it waits for the operating system", "keep files, processes and terminals out of the operator under test"
		case strings.Contains(head, "cgo"):
			what, advice = "it is in C", "keep C out of the operator under test"
		case strings.Contains(head, "Mutex") || strings.Contains(head, "semacquire"):
			what, advice = "it waits for a lock", "a goroutine outside of the simulation, or one that is blocked for another reason, holds it"
		case strings.Contains(head, "running") || strings.Contains(head, "runnable"):
			what, advice = "it never blocks", "let its loop wait for a context, a timer or a channel"
		case strings.Contains(head, "chan") || strings.Contains(head, "select"):
			what, advice = "it waits for a channel that was made outside of the simulation", "make the channel in Scenario.Operator, not in a package variable"
		}
		fmt.Fprintf(&b, "A goroutine keeps time from passing: %s. What to do: %s.\n%s\n\n", what, advice, stack)
	}
	if b.Len() == 0 {
		return "No goroutine of the simulation waits for anything outside of it. All goroutines:\n" + stacks
	}
	return b.String()
}
