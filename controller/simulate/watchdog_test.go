package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
	said := culprits(stacks)
	assert.Contains(t, said, `it waits for a socket or a pipe. What to do: turn listeners off (metrics and health probes on address "0")`)
	assert.Contains(t, said, "serveMetrics")
	assert.Contains(t, said, "it waits for a channel that was made outside of the simulation. What to do: make the channel in Scenario.Operator")
	assert.Contains(t, said, "it never blocks. What to do: let its loop wait")
	assert.NotContains(t, said, "operator.wait")
	assert.NotContains(t, said, "synctest.Wait()")
	assert.NotContains(t, said, "testing.(*T).Run")
	assert.Contains(t, culprits("goroutine 1 [running]:\nmain.main()"), "No goroutine of the simulation waits for anything outside of it")
}

func TestARunInWhichNothingMovesIsEnded(t *testing.T) {
	hung := make(chan []string, 1)
	w := watchWith(time.Millisecond, func(lines []string) {
		select {
		case hung <- lines:
		default:
		}
	})
	defer w.stop()
	end := w.begin(schedule{{verb: slow}})
	assert.Equal(t, []string{"slow"}, <-hung)
	end()
}
