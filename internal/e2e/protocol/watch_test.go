package protocol

import (
	"context"
	"net/http"
	"regexp"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
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

func TestManyObjectsAreListedOnce(t *testing.T) {
	eachMode(t, func(w *world) {
		w.namespace = many(w)
		w.start()
		w.await("the first state", w.reflector.Synced())
		pages := w.pages(w.cache.Len(), 500)
		w.end(1, "the first state")
		if w.mode.kind == list {
			require.Equal(w, pages, w.traffic.answered(list|page), "%v", w.traffic)
		}
	})
}

func TestManyObjectsAreListedOnceMoreInPages(t *testing.T) {
	eachMode(t, func(w *world) {
		w.namespace = many(w)
		w.opts = []reflector.Option{reflector.WithPageSize(200)}
		w.start()
		w.await("the first state", w.reflector.Synced())
		w.stop()
		before := w.traffic.answered(page)
		require.NoError(w, w.server.Forget(w.Context()))
		w.start()
		w.end(2, "the first state, and one after its version had expired")
		if w.mode.kind == list {
			require.GreaterOrEqual(w, w.traffic.answered(page)-before, 19, "%v", w.traffic)
		}
	})
}

func TestAServerWithoutWatchListIsListedOnce(t *testing.T) {
	eachModeOn(t, &withoutWatchList, func(w *world) {
		w.opts = []reflector.Option{reflector.WithPageSize(7)}
		w.fill(50)
		w.start()
		w.await("the first state", w.reflector.Synced())
		pages := w.pages(50, 7)
		w.change(0)
		w.requireEqual()
		w.stop()
		w.start()
		w.change(1)
		w.requireEqual()
		require.Equal(w, 1, w.traffic.fullLists(), "%v", w.traffic)
		require.Equal(w, pages, w.traffic.answered(list|page), "%v", w.traffic)
		asked := w.traffic.count(func(e exchange) bool { return e.kind == watchList })
		require.LessOrEqual(w, asked, 1, "what the server cannot do is not asked for twice; %v", w.traffic)
	})
}

// pages is how many pages a list of so many objects has. The server takes one at version 0 from its watch cache, and then as a whole.
func (w *world) pages(objects, size int) int {
	if w.traffic.count(func(e exchange) bool { return e.kind == list && e.from == "0" }) > 0 {
		return 1
	}
	return (objects + size - 1) / size
}

var crowd struct {
	once      sync.Once
	namespace string
	err       error
}

// many returns a namespace with ConfigMaps, which are made once. Their list is several times as
// large as the 4 MiB that an HTTP/2 stream takes in advance, also after compression, so that a
// killed server cannot have sent all of it.
func many(w *world) string {
	w.Helper()
	crowd.once.Do(func() {
		crowd.namespace = w.server.Namespace(w)
		crowd.err = fill(w.Context(), w.clientset.CoreV1().ConfigMaps(crowd.namespace), 4000, 3<<10)
	})
	require.NoError(w, crowd.err)
	return crowd.namespace
}

func TestAWatchThatTheServerEndsBecauseTheStoreIsSlowIsResumed(t *testing.T) {
	eachMode(t, func(w *world) {
		slow := &slowStore{Store: w.store, busy: make(chan struct{}), ready: make(chan struct{})}
		w.store = slow
		w.fill(50)
		w.start()
		w.Cleanup(slow.goOn)
		w.awaitPhase(reflector.Watching)
		w.create("slow")
		w.await("the store to be busy", slow.busy)

		before := w.terminatedWatches()
		w.flood(func() bool { return w.terminatedWatches() != before })
		w.change(1)
		slow.goOn()
		w.end(1, "the first state")
		require.GreaterOrEqual(w, w.traffic.answered(watch|watchList), 2, "%v", w.traffic)
	})
}

// slowStore takes the object named slow, and then nothing more until it is told to go on.
type slowStore struct {
	store.Store[*configMap]
	busy, ready chan struct{}
	once        sync.Once
}

func (s *slowStore) Add(object *configMap) error {
	if object.Name == "slow" {
		close(s.busy)
		<-s.ready
	}
	return s.Store.Add(object)
}

func (s *slowStore) goOn() { s.once.Do(func() { close(s.ready) }) }

var terminated = regexp.MustCompile(`(?m)^apiserver_terminated_watchers_total\{[^}]*resource="configmaps"[^}]*\} (.*)$`)

// terminatedWatches is what the server says of the watches of ConfigMaps that it ended because nobody read what it had to say.
func (w *world) terminatedWatches() string {
	w.Helper()
	var metrics []byte
	w.insist(func(ctx context.Context) (err error) {
		metrics, err = w.clientset.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		return err
	})
	if found := terminated.FindSubmatch(metrics); found != nil {
		return string(found[1])
	}
	return "0"
}
