package protocol

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/reflector"
)

func TestAServerThatIsKilledDuringAListIsListedOnceMore(t *testing.T) {
	eachMode(t, func(w *world) {
		w.namespace = many(w)
		amid := w.traffic.pauseInside(1<<20, firstState)
		w.start()
		w.crash(amid)
		w.end(2, "the one that was cut off, and one that was not")
	})
}

func TestAServerThatIsKilledDuringAWatchIsListedOnceMoreAtMost(t *testing.T) {
	eachMode(t, func(w *world) {
		w.settle()
		amid := w.traffic.pauseInside(1, watch|watchList)
		w.change(1)
		w.change(2)
		w.crash(amid)
		w.change(3)
		w.requireEqual()
		// A new kube-apiserver knows nothing of what was before it, so that any version but etcd's newest has expired. Whether the reflector's has
		// depends on what else was written by then: by kube-apiserver itself, for one, when it starts.
		require.LessOrEqual(w, w.traffic.expired(), 1, "%v", w.traffic)
		w.requireFullLists(1+w.traffic.expired(), "the first state, and one if the version expired")
	})
}

func TestAServerThatIsKilledWithChangesUnreadIsListedOnceMore(t *testing.T) {
	eachMode(t, func(w *world) {
		w.fill(50)
		w.start()
		w.requireEqual()
		amid := w.traffic.pauseInside(1, watch|watchList)
		w.flood(func() bool { return true })
		w.change(1)
		w.crash(amid)
		w.change(2)
		w.endAfterExpiry() // the new kube-apiserver does not know what was unread
	})
}

func TestAServerThatIsNotThereYetIsListedOnce(t *testing.T) {
	eachMode(t, func(w *world) {
		w.fill(50)
		require.NoError(w, w.server.KillAPIServer())
		w.start()
		w.awaitPhase(reflector.BackingOff)
		require.NoError(w, w.server.StartAPIServer())
		w.end(1, "the first state")
	})
}

func TestAnEtcdThatIsKilledDuringAListIsListedOnceMoreAtMost(t *testing.T) {
	eachMode(t, func(w *world) {
		w.namespace = many(w)
		amid := w.traffic.pauseInside(1<<20, firstState)
		w.start()
		w.await("a part of the list", amid.reached)
		require.NoError(w, w.server.KillEtcd())
		amid.resume()
		require.NoError(w, w.server.StartEtcd())
		w.requireEqual()
		// It has the pages in memory; but it may not have them any more, and then asks etcd.
		lost := w.traffic.count(func(e exchange) bool { return e.kind == page && e.status != http.StatusOK })
		require.LessOrEqual(w, lost, 1, "%v", w.traffic)
		w.requireFullLists(1+lost, "the first state, and one if a page could not be had")
	})
}

func TestAnEtcdThatIsKilledDuringAWatchCostsNoList(t *testing.T) {
	eachMode(t, func(w *world) {
		w.settle()
		require.NoError(w, w.server.KillEtcd())
		require.NoError(w, w.server.StartEtcd())
		w.change(1)
		w.end(1, "the first state")
	})
}

func TestAReflectorThatIsStoppedGoesOnWhereItWas(t *testing.T) {
	eachMode(t, func(w *world) {
		w.whileStopped(func() {})
		w.end(1, "the first state")
	})
}

func TestACompactionOfEtcdAloneCostsNoList(t *testing.T) {
	eachMode(t, func(w *world) {
		w.whileStopped(func() { require.NoError(w, w.server.CompactEtcd(w.Context(), "")) })
		w.end(1, "the first state: kube-apiserver still has what came after it")
	})
}

func TestAReflectorThatWasStoppedForTooLongListsOnceMore(t *testing.T) {
	eachMode(t, func(w *world) {
		w.whileStopped(func() {
			require.NoError(w, w.server.Forget(w.Context()))
			w.change(3)
		})
		w.endAfterExpiry()
	})
}

// A list in pages at the version that expired would be one of exactly that version, which etcd still has, and would lead back to the same watch.
func TestAVersionThatOnlyTheWatchCacheForgotCostsOneListInPagesToo(t *testing.T) {
	eachMode(t, func(w *world) {
		w.opts = []reflector.Option{reflector.WithPageSize(10)}
		w.fill(50)
		w.start()
		w.requireEqual()
		w.stop()
		w.change(0)
		require.NoError(w, w.server.KillAPIServer())
		require.NoError(w, w.server.StartAPIServer())
		w.start()
		w.change(1)
		w.endAfterExpiry()
	})
}

func TestAListWhosePagesExpireIsBegunAnewOnce(t *testing.T) {
	eachMode(t, func(w *world) {
		if w.mode.kind != list {
			w.Skip("there are no pages")
		}
		w.opts = []reflector.Option{reflector.WithPageSize(10)}
		w.fill(50)
		w.start()
		w.requireEqual()
		w.stop()
		// Not the first list: a server has no pages for one at version 0.
		w.change(0)
		require.NoError(w, w.server.Forget(w.Context()))
		third := w.traffic.pauseBefore(2, page)
		w.start()
		w.await("the third page to be asked for", third.reached)
		w.change(1)
		require.NoError(w, w.server.Forget(w.Context()))
		third.resume()
		w.end(3, "the first state, the one whose pages expired, and one whose pages did not")
	})
}
