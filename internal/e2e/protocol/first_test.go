package protocol

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/reflector"
)

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
