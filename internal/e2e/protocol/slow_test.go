package protocol

import (
	"context"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

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
