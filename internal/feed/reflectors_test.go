package feed

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/internal/lifecycle"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// still is a feed that fills nothing.
type still struct{}

func (still) Run(ctx context.Context) error                   { <-ctx.Done(); return nil }
func (still) State() (none reflector.State)                   { return none }
func (still) Changed(reflector.State) (never <-chan struct{}) { return nil }
func (still) Synced() (never <-chan struct{})                 { return nil }

// leaves panics at the deletion of an object.
type leaves struct{}

func (leaves) Start(*store.Snapshot[*corev1.Pod]) {}
func (leaves) Commit(c *store.Commit[*corev1.Pod]) {
	for _, change := range c.Changes {
		if change.Type == store.Deletion {
			panic("ouch")
		}
	}
}

func TestPartitionIsGoneAlthoughAFollowerPanicsWhenItIsDropped(t *testing.T) {
	cache := store.New(store.ObjectKey[*corev1.Pod])
	all := NewReflectors(Target[*corev1.Pod]{Name: "test", Cache: cache, Partition: func(s store.Scope) (store.Store[*corev1.Pod], error) { return cache.Partition(s) }})
	at := store.Scope{Namespace: "a"}
	require.NoError(t, all.Add(at, func(into store.Store[*corev1.Pod]) Feed {
		require.NoError(t, into.Replace([]*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pod", ResourceVersion: "1"}}}, "1"))
		return still{}
	}))
	cache.Follow(leaves{})
	one := all.Sources()[0]
	changed := all.Changed(all.State())
	assert.Panics(t, func() { _ = all.Drop(at) })
	<-one.Gone
	<-changed
	assert.ErrorIs(t, all.Drop(at), ErrNone)
}

// scripted is a feed that is synced, and ends, when the test says so.
type scripted struct {
	still
	synced, leave chan struct{}
}

func (f *scripted) Run(ctx context.Context) error { <-ctx.Done(); <-f.leave; return nil }
func (f *scripted) Synced() <-chan struct{}       { return f.synced }

func TestGroupIsNotSyncedBeforeADroppedPartHasLeftTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := store.New(store.ObjectKey[*corev1.Pod])
		all := NewReflectors(Target[*corev1.Pod]{Name: "test", Cache: cache, Partition: func(s store.Scope) (store.Store[*corev1.Pod], error) { return cache.Partition(s) }})
		stays, goes := &scripted{synced: make(chan struct{}), leave: make(chan struct{})}, &scripted{leave: make(chan struct{})}
		var of []store.Store[*corev1.Pod]
		for namespace, f := range map[string]*scripted{"stays": stays, "goes": goes} {
			require.NoError(t, all.Add(store.Scope{Namespace: namespace}, func(into store.Store[*corev1.Pod]) Feed {
				of = append(of, into)
				return f
			}))
		}
		for _, into := range of { // as package persist does before the first list
			at := into.(*store.Partition[*corev1.Pod]).Scope().Namespace
			require.NoError(t, into.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: "pod", ResourceVersion: "1"}}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- all.Run(ctx) }()
		synctest.Wait()
		dropped := make(chan error, 1)
		go func() { dropped <- all.Drop(store.Scope{Namespace: "goes"}) }()
		synctest.Wait() // Drop waits for the reflector
		close(stays.synced)
		synctest.Wait()
		assert.Equal(t, 2, cache.Len())
		assert.False(t, lifecycle.IsClosed(all.Synced()))
		close(goes.leave)
		require.NoError(t, <-dropped)
		assert.Equal(t, 1, cache.Len())
		assert.True(t, lifecycle.IsClosed(all.Synced()))
		close(stays.leave)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestGroupWhoseLastPartIsFilledAsItEndsIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := store.New(store.ObjectKey[*corev1.Pod])
		all := NewReflectors(Target[*corev1.Pod]{Name: "test", Cache: cache, Partition: func(s store.Scope) (store.Store[*corev1.Pod], error) { return cache.Partition(s) }})
		last := &scripted{synced: make(chan struct{}), leave: make(chan struct{})}
		require.NoError(t, all.Add(store.Scope{Namespace: "a"}, func(store.Store[*corev1.Pod]) Feed { return last }))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- all.Run(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(last.synced) // it was in the middle of the list
		close(last.leave)
		require.NoError(t, <-ended)
		assert.True(t, lifecycle.IsClosed(all.Synced()))
	})
}

// told is a feed that says itself when its state has changed.
type told struct {
	still
	onChange func()
	phase    reflector.Phase
}

func (f *told) OnChange(fn func())     { f.onChange = fn }
func (f *told) State() reflector.State { return reflector.State{Phase: f.phase} }

func (f *told) Run(context.Context) error {
	f.phase = reflector.Watching
	f.onChange()
	return nil
}

func TestFeedThatTellsItsChangesNeedsNoGoroutine(t *testing.T) {
	changes := 0
	s := New(&told{phase: reflector.Stopped})
	s.changed = func() { changes++ }
	assert.False(t, s.Broken().IsZero())
	require.NoError(t, s.Run(t.Context()))
	assert.True(t, s.Broken().IsZero())
	assert.Equal(t, 3, changes, "at the start, at the watch, and at the end")
}
