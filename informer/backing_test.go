package informer

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// testBacking is a Backing without a store of its own.
type testBacking struct {
	store.BatchStore[*corev1.Pod]
	cache *store.Cache[*corev1.Pod]
	run   func(context.Context) error
}

func newBacking(run func(context.Context) error) *testBacking {
	cache := store.New(store.ObjectKey[*corev1.Pod])
	return &testBacking{cache, cache, run}
}

func (b *testBacking) Cache() *store.Cache[*corev1.Pod] { return b.cache }

func (b *testBacking) Partition(scope store.Scope) (store.BatchStore[*corev1.Pod], error) {
	return b.cache.Partition(scope)
}

func (b *testBacking) Run(ctx context.Context) error { return b.run(ctx) }

// newUnanswered returns an informer with a backing, whose server answers no list.
func newUnanswered(t *testing.T, b *testBacking) *Informer[*corev1.Pod] {
	server := reflectortest.Start(t)
	server.Inject(reflectortest.Stall(nil).On("", "pods"))
	return NewStored(clientOf(t, server).CoreV1().Pods("default"), b)
}

func TestFailureOfTheBackingEndsTheInformerAndThoseWhoWait(t *testing.T) {
	full := errors.New("disk is full")
	for name, of := range map[string]struct {
		end  func() error
		want error
	}{
		"error":  {func() error { return full }, full},
		"Goexit": {func() error { goruntime.Goexit(); return nil }, errBackingAbandoned}, // as FailNow of a test does
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fail := make(chan struct{})
				i := newUnanswered(t, newBacking(func(context.Context) error { <-fail; return of.end() }))
				waiting, running := make(chan error, 1), make(chan error, 1)
				go func() { waiting <- i.WaitForSync(t.Context()) }()
				ctx := within(t, time.Minute)
				go func() { running <- i.Run(ctx) }()
				synctest.Wait()
				close(fail)
				synctest.Wait() // the time of the bubble stands still
				require.Len(t, waiting, 1)
				var why *SyncError
				require.ErrorAs(t, <-waiting, &why)
				assert.ErrorIs(t, why.Err, of.want)
				require.Len(t, running, 1)
				assert.ErrorIs(t, <-running, of.want)
				assert.NoError(t, ctx.Err())
				assert.ErrorIs(t, i.WaitForSync(t.Context()), of.want, "also for those who come later")
			})
		})
	}
}

// A failure to close is an error of Run. It does not keep the next Run from filling the cache, so those
// who wait for that go on.
func TestWaitForSyncOutlivesABackingThatFailsAfterTheReflectorHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := errors.New("not closed")
		b := newBacking(func(ctx context.Context) error { <-ctx.Done(); return late })
		i := newUnanswered(t, b)
		waiting := make(chan error, 1)
		go func() { waiting <- i.WaitForSync(within(t, time.Minute)) }()
		stop := start(t, i)
		synctest.Wait()
		require.ErrorIs(t, stop(), late)
		synctest.Wait()
		assert.Empty(t, waiting)
		assert.ErrorIs(t, <-waiting, context.DeadlineExceeded)
	})
}

// abandonedFeed is a feed whose Run does not return.
type abandonedFeed struct {
	feed.Group
	end func()
}

func (f abandonedFeed) Run(context.Context) error { f.end(); return nil }

func TestFeedThatDoesNotReturnEndsTheBackingAndThoseWhoWait(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("ouch") }, "Goexit": goruntime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := false
				i := newUnanswered(t, newBacking(func(ctx context.Context) error {
					<-ctx.Done()
					<-time.After(time.Second)
					ended = true
					return nil
				}))
				i.feed = abandonedFeed{i.feed, end}
				waiting, over := make(chan error, 1), make(chan struct{})
				go func() { waiting <- i.WaitForSync(t.Context()) }()
				synctest.Wait()
				go func() {
					defer close(over)
					defer func() { _ = recover() }()
					_ = i.Run(t.Context())
				}()
				<-over
				assert.True(t, ended, "the backing ends before Run does")
				require.Len(t, waiting, 1)
				assert.ErrorIs(t, <-waiting, feed.ErrAbandoned)
				assert.True(t, isDone(i.Stopped()))
				assert.Nil(t, i.run)
			})
		})
	}
}
