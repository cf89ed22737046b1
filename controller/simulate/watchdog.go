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

	mu     sync.Mutex
	played map[*schedule]bool // guarded by mu: what plays now
}

// patience is how long, in real time, no message may be delivered.
const patience = 30 * time.Second

func watch(test string) *watchdog {
	return watchWith(patience, func(lines []string) {
		fmt.Fprintln(os.Stderr, hanging(test, lines))
		os.Exit(2)
	})
}

// watchWith calls hangs when nothing has moved for some time.
func watchWith(patience time.Duration, hangs func(lines []string)) *watchdog {
	w := &watchdog{quit: make(chan struct{}), played: map[*schedule]bool{}}
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
			if lines := w.lines(); len(lines) > 0 && now == last {
				hangs(lines)
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

// begin notes that a schedule plays, until the returned function is called.
func (w *watchdog) begin(line schedule) (end func()) {
	w.progress.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.played[&line] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.played, &line)
	}
}

func (w *watchdog) lines() (lines []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range w.played {
		lines = append(lines, line.String())
	}
	return lines
}

// hanging says which goroutines keep time from passing.
func hanging(test string, lines []string) string {
	buffer := make([]byte, 8<<20)
	stacks := string(buffer[:runtime.Stack(buffer, true)])
	var b strings.Builder
	fmt.Fprintf(&b, "simulate: %s, playing %q: nothing has moved for %v of real time.\n", test, lines, patience)
	b.WriteString(culprits(stacks))
	return b.String()
}

// culprits describes the goroutines in bubbles that do not wait for something in their bubble.
func culprits(stacks string) string {
	var b strings.Builder
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
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
