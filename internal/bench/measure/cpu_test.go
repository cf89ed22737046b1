//go:build unix

package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCPUTimeIsThatOfWorkAndNotOfWaiting(t *testing.T) {
	const pause = 300 * time.Millisecond
	assert.Less(t, CPU(func() { <-time.After(pause) }), pause/2)
	assert.GreaterOrEqual(t, CPU(func() {
		for begin := Used(); Used()-begin < pause; {
		}
	}), pause)
}
