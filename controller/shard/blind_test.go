package shard

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// fake is a client of leases that ends the goroutine of its caller, as one does that calls FailNow of a test.
type fake struct {
	coordination.LeasesGetter
	coordination.LeaseInterface
	none bool // there is no client of leases

	mu       sync.Mutex
	exits    bool // the next request to list or to watch ends the goroutine; guarded by mu
	watching watch.Interface
}

func (f *fake) Leases(namespace string) coordination.LeaseInterface {
	if f.none {
		return nil
	}
	f.LeaseInterface = f.LeasesGetter.Leases(namespace)
	return f
}

func (f *fake) exit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exits {
		runtime.Goexit()
	}
}

func (f *fake) List(ctx context.Context, opts metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	f.exit()
	return f.LeaseInterface.List(ctx, opts)
}

func (f *fake) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	f.exit()
	w, err := f.LeaseInterface.Watch(ctx, opts)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watching = w
	return w, err
}

// breakWatch ends the watch, and the goroutine with it.
func (f *fake) breakWatch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exits = true
	f.watching.Stop()
}

func TestMemberThatCannotSeeTheLeasesEnds(t *testing.T) {
	for name, test := range map[string]struct {
		client *fake
		cause  error
	}{
		"no client": {&fake{none: true}, reflector.ErrNoClient},
		"Goexit":    {&fake{exits: true}, feed.ErrAbandoned},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				test.client.LeasesGetter = w.client()
				m, err := New(test.client, w.group, "one", w.hold("one"))
				require.NoError(t, err)
				one := w.run(m)
				err = <-one.ended
				require.ErrorIs(t, err, test.cause)
				assert.ErrorContains(t, err, "informer of the leases of group foos")
				assert.Equal(t, Stopped, m.State().Phase)
			})
		})
	}
}

func TestMemberThatNoLongerSeesTheLeasesGivesUpItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		client := &fake{LeasesGetter: w.client()}
		m, err := New(client, w.group, "one", w.hold("one"))
		require.NoError(t, err)
		one := w.run(m)
		pass(10 * time.Second)
		require.Equal(t, map[string]int{"one": 2}, w.load())
		client.breakWatch()
		require.ErrorIs(t, <-one.ended, feed.ErrAbandoned)
		assert.Empty(t, w.load())
		two := w.start("two")
		pass(time.Minute)
		assert.Equal(t, map[string]int{"two": 2}, w.load())
		require.NoError(t, two.stop())
		assert.Empty(t, w.clash())
	})
}

// All writes succeed, so the member keeps its shards, but it sees nobody come.
func TestMemberWithABrokenWatchIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		one := w.start("one")
		pass(time.Minute)
		require.NoError(t, one.Ready())
		w.server.Inject(reflectortest.Answer(403).On("watch", "leases"))
		w.server.Inject(reflectortest.Answer(403).On("list", "leases"))
		pass(15 * time.Minute) // the watch ends in ten
		assert.Equal(t, Sharing, one.State().Phase)
		err := one.Ready()
		stale, ok := errors.AsType[*informer.StaleError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "foos leases", stale.Informer)
		w.server.ClearFaults()
		pass(5 * time.Minute)
		assert.NoError(t, one.Ready())
		require.NoError(t, one.stop())
	})
}
