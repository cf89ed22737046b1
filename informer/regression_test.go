package informer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadyFailsWhileAWatchIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		i := newServed(t, server, WithStaleness(5*time.Second))
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, i.Ready())
		stalled := server.Inject(reflectortest.Stall(nil).On("watch", "pods"))
		require.NoError(t, server.Restore(server.ResourceVersion())) // cuts watches off
		<-time.After(7 * time.Second)
		var stale *StaleError
		require.ErrorAs(t, i.Ready(), &stale)
		assert.Equal(t, reflector.Opening, stale.Scope.State.Phase)
		assert.False(t, i.Scopes()[0].Broken.IsZero())
		stalled.Remove()
		<-time.After(3 * time.Minute) // the request is given up after two
		assert.NoError(t, i.Ready())
		require.NoError(t, stop())
	})
}
