package feed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// staged is a feed whose state a test sets.
type staged struct {
	*lifecycle.Status[reflector.State]
	runs    int
	synced  *lifecycle.Latch
	fail    chan error
	partial bool // it leaves objects out
}

func newStaged() *staged {
	same := func(a, b *reflector.State) bool { return a.Phase == b.Phase }
	return &staged{Status: lifecycle.NewStatus(reflector.State{Phase: reflector.Stopped}, same), synced: lifecycle.NewLatch(), fail: make(chan error, 1)}
}

func (f *staged) Run(ctx context.Context) error {
	f.runs++
	f.enter(reflector.Listing)
	defer f.enter(reflector.Stopped)
	select {
	case err := <-f.fail:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (f *staged) enter(phase reflector.Phase) {
	f.Set(func(s *reflector.State) { s.Phase = phase })
}

// sync is the end of the first list, which changes the state, too.
func (f *staged) sync() {
	f.synced.Set()
	f.enter(reflector.Watching)
}

func (f *staged) State() reflector.State  { return f.Get() }
func (f *staged) Synced() <-chan struct{} { return f.synced.Done() }
func (f *staged) Covers(store.Key) bool   { return !f.partial }

// group is a group of such feeds, each for one namespace.
type group struct {
	t *testing.T
	*Reflectors[*corev1.Pod]
	end context.CancelFunc
	err chan error // of Run
}

func newGroup(t *testing.T) *group {
	cache := store.New(store.ObjectKey[*corev1.Pod])
	partition := func(s store.Scope) (store.Store[*corev1.Pod], error) { return cache.Partition(s) }
	return &group{t: t, Reflectors: NewReflectors(Target[*corev1.Pod]{Name: "pods", Cache: cache, Partition: partition})}
}

// run runs the group until the test ends, or until end.
func (g *group) run() {
	ctx, cancel := context.WithCancel(g.t.Context())
	ended := make(chan error, 1)
	g.end, g.err = cancel, ended
	go func() { ended <- g.Run(ctx) }()
	g.t.Cleanup(cancel)
	synctest.Wait()
}

func (g *group) add(namespace string) *staged {
	g.t.Helper()
	f := newStaged()
	require.NoError(g.t, g.Add(store.Scope{Namespace: namespace}, func(store.Store[*corev1.Pod]) Feed { return f }))
	synctest.Wait()
	return f
}

func (g *group) drop(namespace string) {
	g.t.Helper()
	require.NoError(g.t, g.Drop(store.Scope{Namespace: namespace}))
	synctest.Wait()
}

func TestPartsRunWhileTheGroupRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		before := g.add("a")
		assert.Zero(t, before.runs)
		g.run()
		during := g.add("b")
		assert.Equal(t, []int{1, 1}, []int{before.runs, during.runs})
		g.end()
		require.NoError(t, <-g.err)
		assert.Equal(t, reflector.Stopped, before.State().Phase)
		after := g.add("c")
		assert.Zero(t, after.runs, "nothing runs any more")
		g.run()
		assert.Equal(t, []int{2, 2, 1}, []int{before.runs, during.runs, after.runs})
	})
}

func TestDroppedPartEndsAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		one, other := g.add("a"), g.add("b")
		g.run()
		gone := g.Sources()[0].Gone
		g.drop("a")
		assert.Equal(t, reflector.Stopped, one.State().Phase)
		assert.True(t, lifecycle.IsClosed(gone))
		assert.Equal(t, reflector.Listing, other.State().Phase)
		assert.Len(t, g.Sources(), 1)
		again := g.add("a")
		assert.Equal(t, 1, again.runs)
	})
}

func TestPartThatFailsEndsTheOthersAndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		one, other := g.add("a"), g.add("b")
		g.run()
		failure := errors.New("on purpose")
		one.fail <- failure
		err := <-g.err
		require.ErrorIs(t, err, failure)
		assert.EqualError(t, err, "informer pods, namespace a: on purpose")
		assert.Equal(t, reflector.Stopped, other.State().Phase)
		g.run()
		assert.Equal(t, 2, one.runs, "another Run begins without the failure")
	})
}

func TestGroupIsSyncedWhenAllItsPartsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		g.run()
		assert.False(t, lifecycle.IsClosed(g.Synced()), "there is no part")
		one, other := g.add("a"), g.add("b")
		one.sync()
		synctest.Wait()
		assert.False(t, lifecycle.IsClosed(g.Synced()))
		other.sync()
		synctest.Wait()
		assert.True(t, lifecycle.IsClosed(g.Synced()))
		g.add("c")
		assert.True(t, lifecycle.IsClosed(g.Synced()), "once is enough")
	})
}

func TestPartThatIsDroppedIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		one := g.add("a")
		g.add("b")
		g.run()
		one.sync()
		synctest.Wait()
		g.drop("b")
		assert.True(t, lifecycle.IsClosed(g.Synced()))
	})
}

func TestStateIsThatOfThePartFurthestFromAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		assert.Equal(t, reflector.Stopped, g.State().Phase, "there is no part")
		one, other := g.add("a"), g.add("b")
		one.sync()
		other.sync()
		for _, better := range [][2]reflector.Phase{
			{reflector.Watching, reflector.Polling}, {reflector.Polling, reflector.Opening}, {reflector.Opening, reflector.Listing},
			{reflector.Listing, reflector.Stopped}, {reflector.Stopped, reflector.BackingOff},
		} {
			one.enter(better[0])
			other.enter(better[1])
			assert.Equal(t, better[1], g.State().Phase)
			one.enter(better[1])
			other.enter(better[0])
			assert.Equal(t, better[1], g.State().Phase)
		}
		one.enter(reflector.BackingOff)
		other.enter(reflector.BackingOff)
		one.Set(func(s *reflector.State) { s.Attempt = 1 })
		assert.Equal(t, 1, g.State().Attempt, "the first of equals")
		unsynced := g.add("c")
		unsynced.enter(reflector.Watching)
		assert.Equal(t, reflector.Watching, g.State().Phase, "a part without its first list is further away than any other")
	})
}

func TestGroupChangesWhenAPartComesGoesOrChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		changed := g.Changed(g.State())
		one := g.add("a")
		assert.True(t, lifecycle.IsClosed(changed), "it comes")
		changed = g.Changed(g.State())
		assert.False(t, lifecycle.IsClosed(changed))
		seen := g.State()
		g.run()
		assert.True(t, lifecycle.IsClosed(changed), "it runs")
		assert.True(t, lifecycle.IsClosed(g.Changed(seen)), "that state is over")
		changed = g.Changed(g.State())
		one.Set(func(s *reflector.State) { s.ResourceVersion, s.LastContact = "7", time.Now() })
		assert.False(t, lifecycle.IsClosed(changed), "a bookmark is no change")
		seen = g.State()
		seen.ResourceVersion = "6"
		assert.False(t, lifecycle.IsClosed(g.Changed(seen)))
		g.drop("a")
		assert.True(t, lifecycle.IsClosed(changed), "it goes")
	})
}

func TestPartsThatLeftObjectsOutAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		g.add("a")
		assert.True(t, g.Covered())
		selecting := newStaged()
		selecting.partial = true
		require.NoError(t, g.Add(store.Scope{Namespace: "b"}, func(store.Store[*corev1.Pod]) Feed { return selecting }))
		assert.False(t, g.Covered())
		g.add("c")
		g.drop("b")
		assert.False(t, g.Covered(), "an object of b may exist")
	})
}

func TestScopeIsAddedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		g.add("a")
		never := func(store.Store[*corev1.Pod]) Feed { panic("it has no partition") }
		require.ErrorIs(t, g.Add(store.Scope{Namespace: "a"}, never), store.ErrOutOfScope)
		require.ErrorIs(t, g.Add(store.Scope{}, never), store.ErrOutOfScope, "it overlaps")
		assert.Len(t, g.Sources(), 1)
	})
}

// A server that accepts watches and ends them at once does not work.
func TestWatchThatLastsLessThanASecondDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newStaged()
		s := New(f)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		enter := func(phase reflector.Phase) time.Time {
			synctest.Wait()
			<-time.After(time.Minute)
			f.enter(phase)
			synctest.Wait()
			return time.Now()
		}
		enter(reflector.Polling)
		assert.Zero(t, s.Broken(), "polling counts as a watch")
		since := enter(reflector.BackingOff)
		assert.Equal(t, since, s.Broken())
		enter(reflector.Watching)
		assert.Zero(t, s.Broken())
		<-time.After(shortWatch - 1)
		f.enter(reflector.BackingOff)
		synctest.Wait()
		assert.Equal(t, since, s.Broken())
		enter(reflector.Watching)
		<-time.After(shortWatch)
		f.enter(reflector.BackingOff)
		synctest.Wait()
		assert.Equal(t, time.Now(), s.Broken())
		enter(reflector.Watching)
		<-time.After(time.Minute)
		cancel()
		require.NoError(t, <-ended)
		assert.Equal(t, time.Now(), s.Broken(), "the end of the feed")
	})
}

func TestSourceIsSyncedWithItsFeed(t *testing.T) {
	f := newStaged()
	s := New(f)
	assert.False(t, s.IsSynced())
	f.synced.Set()
	assert.True(t, s.IsSynced())
	assert.Equal(t, []*Source{s}, s.Sources())
}
