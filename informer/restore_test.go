package informer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// asked returns how often a server was asked for lists, also as watch-lists, and the
// resource versions of the other watches.
func asked(server *reflectortest.Server) (lists int, resumed []string) {
	for _, r := range server.Requests() {
		switch {
		case r.Verb == "list" || r.Query.Get("sendInitialEvents") == "true":
			lists++
		case r.Verb == "watch":
			resumed = append(resumed, r.Query.Get("resourceVersion"))
		}
	}
	return lists, resumed
}

func TestRunAgainResumesTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		i := newServed(t, server)
		var d diary
		i.Handle(keyed(&d))
		for range 3 {
			stop := start(t, i)
			require.NoError(t, i.WaitForSync(t.Context()))
			synctest.Wait()
			require.NoError(t, stop())
		}
		lists, resumed := asked(server)
		assert.Equal(t, 1, lists, "the first Run's")
		assert.Len(t, resumed, 2)
		require.NoError(t, server.Create(onNode("b", "n")))
		require.NoError(t, server.Update(onNode("a", "n2")))

		server.ForgetRequests()
		before := i.Cache().ResourceVersion()
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		lists, resumed = asked(server)
		assert.Zero(t, lists)
		assert.Equal(t, []string{before}, resumed)
		assert.Equal(t, []string{
			"Addition default/a initial=true", "Addition default/b initial=false", "Modification default/a initial=false",
		}, d.read(), "what happened in between, and nothing twice")
	})
}

func TestNewProcessResumesWhereTheOldOneWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		require.NoError(t, server.Create(onNode("b", "n")))
		old := newServed(t, server)
		stop := start(t, old)
		require.NoError(t, old.WaitForSync(t.Context()))
		require.NoError(t, stop())
		kept := old.Cache().Snapshot()
		var objects []*corev1.Pod
		for _, p := range kept.All() {
			objects = append(objects, p)
		}
		require.NoError(t, server.Delete(onNode("b", "n")))

		server.ForgetRequests()
		i := newServed(t, server)
		require.NoError(t, i.Restore(objects, kept.ResourceVersion()))
		var d diary
		i.Handle(keyed(&d))
		stop = start(t, i)
		synctest.Wait()
		require.ErrorIs(t, i.Restore(nil, "1"), ErrRunning)
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NoError(t, stop())
		lists, resumed := asked(server)
		assert.Zero(t, lists)
		assert.Equal(t, []string{kept.ResourceVersion()}, resumed)
		lines := d.read()
		assert.Contains(t, lines, "Addition default/a initial=true")
		assert.Equal(t, "Deletion default/b initial=false", lines[len(lines)-1])

		// History is lost: a list finds out what is missing.
		require.NoError(t, server.Compact(server.ResourceVersion()))
		server.ForgetRequests()
		i = newServed(t, server)
		require.NoError(t, i.Restore(objects, kept.ResourceVersion()))
		stop = start(t, i)
		<-time.After(time.Minute)
		require.NoError(t, stop())
		lists, _ = asked(server)
		assert.Equal(t, 1, lists)
		assert.Equal(t, 1, i.Cache().Len())
	})
}
