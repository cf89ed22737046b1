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

func TestInformersOfANestedGroupEndLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newPods()
		outer, inner := newFinisher(pods.Stopped), newFinisher(pods.Stopped)
		require.NoError(t, runs(t, synctest.Wait, nest(nest(pods), inner), outer))
		assert.True(t, outer.filled, "a member of the outer group finishes with a cache that is filled")
		assert.True(t, inner.filled)
		assert.True(t, isClosed(pods.Stopped()))
	})
}

func TestGroupHasMembersOfNestedGroups(t *testing.T) {
	pods, other := newPods(), newPods()
	group := nest(nest(nest(pods)), newFinisher(pods.Stopped))
	assert.True(t, group.Has(pods))
	assert.False(t, group.Has(other))
	membership := group.Add(other)
	assert.True(t, group.Has(other))
	membership.Stop()
	assert.False(t, group.Has(other))
}
