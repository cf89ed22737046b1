//go:build unix

package measure

import (
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPerOpIsInUnitsAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		figure := PerOp(4, time.Microsecond, func() { <-time.After(time.Millisecond) })
		assert.Equal(t, 250.0, figure)
	})
}

var sink []byte

func TestAllocationsLeavesOutTheFirstCall(t *testing.T) {
	calls := 0
	count := Allocations(func() {
		if calls++; calls == 1 {
			for range 100 {
				sink = make([]byte, 8)
			}
		}
		for range 10 {
			sink = make([]byte, 8)
		}
	})
	assert.InDelta(t, 10, count, 2)
	assert.Greater(t, calls, 1)
}

func TestLiveHeapDoesNotCountGarbage(t *testing.T) {
	const size = 32 << 20
	before := LiveHeap()
	held := make([]byte, size)
	assert.InDelta(t, size, float64(LiveHeap())-float64(before), size/4)
	runtime.KeepAlive(held)
	assert.Less(t, float64(LiveHeap())-float64(before), float64(size)/4)
}

func TestCPUTimeIsThatOfWorkAndNotOfWaiting(t *testing.T) {
	const pause = 300 * time.Millisecond
	assert.Less(t, CPU(func() { <-time.After(pause) }), pause/2)
	assert.GreaterOrEqual(t, CPU(func() {
		for begin := used(); used()-begin < pause; {
		}
	}), pause)
}

func TestPeakRSSIsThatOfAProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		assert.Zero(t, PeakRSS())
		return
	}
	before := PeakRSS()
	assert.Greater(t, before, 1e6)
	much := make([]byte, 64<<20)
	for i := range much {
		much[i] = 1
	}
	assert.GreaterOrEqual(t, PeakRSS(), float64(len(much)), much[0])
}
