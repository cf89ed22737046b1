package sharedwatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhoJoinsWaitsFiveSecondsForWhoIsBehindAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, _ := twoUIDs()
		stream, members := testStream()
		stream.opened, stream.heard = time.Now(), time.Now()
		late := members[1]
		late.joined, late.own, late.at = false, quiet{}, 10
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for version := 11; !members[0].evicted; version++ {
				came := largeOf(version, here)
				if _, err := stream.deliver(t.Context(), &came); err != nil {
					return
				}
				stream.multiplexer.mu.Lock()
				late.at = max(late.at, stream.position) // its own watch brought it as well
				stream.multiplexer.mu.Unlock()
			}
		}()
		<-time.After(time.Second)
		synctest.Wait() // nobody waits for the other yet
		began := time.Now()
		late.approach(t.Context())
		require.True(t, late.joined)
		<-ended
		assert.Equal(t, memberPatience, time.Since(began))
	})
}
