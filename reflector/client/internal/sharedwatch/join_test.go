package sharedwatch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"
)

func TestWhoJoinsWaitsFiveSecondsForWhoIsBehindAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, _ := twoUIDs()
		stream, members := testStream()
		stream.opened, stream.heard = time.Now(), time.Now()
		late := members[1]
		late.joined, late.own, late.at = false, quiet{}, 10
		large := strings.Repeat("x", 40_000)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for version := 11; !members[0].evicted; version++ {
				came := Batch{Frames: wire.NewBatch()}
				came.Frames.Append(&wire.Frame{Type: string(watch.Modified), Object: fmt.Appendf(nil, `{"metadata":{"name":"a","namespace":"n","uid":%q,"resourceVersion":"%d"},"data":%q}`, here, version, large)})
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
