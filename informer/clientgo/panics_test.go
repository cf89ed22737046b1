package clientgo

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// panics says what happens to panics until the end of the test, and writes them down.
type panics struct {
	mu   sync.Mutex
	seen []any
	ctxs []context.Context
}

func catchPanics(t *testing.T, reallyCrash bool) *panics {
	p := &panics{}
	crash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = crash, handlers })
	utilruntime.ReallyCrash = reallyCrash
	utilruntime.PanicHandlers = []func(context.Context, any){p.note}
	return p
}

func (p *panics) note(ctx context.Context, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.ctxs = append(p.seen, value), append(p.ctxs, ctx)
}

func (p *panics) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// unsteady panics in the first calls.
type unsteady struct {
	diary
	left int
}

func (u *unsteady) OnAdd(object any, initial bool) {
	if u.left--; u.left >= 0 {
		panic("oh")
	}
	u.diary.OnAdd(object, initial)
}

func TestPanicOfAHandlerIsRetriedAndNobodyElsesBusiness(t *testing.T) {
	caught := catchPanics(t, true)
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		var mu sync.Mutex
		var failures []error
		s := NewTyped(configMaps(t, server), WithInformer(informer.WithErrorHandler(func(_ context.Context, err error) {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
		})))
		bad, good := &unsteady{left: 3}, &diary{}
		handle, err := s.AddEventHandler(bad)
		require.NoError(t, err)
		_, err = s.AddEventHandler(good)
		require.NoError(t, err)
		stop := run(t, s)
		synctest.Wait()
		assert.Equal(t, []string{"initial a", "initial b"}, good.read())
		assert.True(t, handle.HasSynced(), "a panic does not hold it up")
		assert.Equal(t, 2, caught.count())

		<-time.After(time.Minute)
		stop()
		assert.Equal(t, 3, caught.count())
		assert.Equal(t, []any{"oh", "oh", "oh"}, caught.seen)
		assert.ElementsMatch(t, []string{"initial a", "initial b"}, bad.read(), "nothing is skipped")
		require.Len(t, failures, 3)
		_, ok := errors.AsType[*eventqueue.HandlerError](failures[0])
		assert.True(t, ok, "%v", failures[0])
	})
}

func TestPanicIsSkippedIfTheProgramSaysSo(t *testing.T) {
	caught := catchPanics(t, false)
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		s := NewTyped(configMaps(t, server))
		bad := &unsteady{left: 1}
		handle, err := s.AddEventHandler(bad)
		require.NoError(t, err)
		run(t, s)
		<-time.After(time.Hour)
		assert.Equal(t, 1, caught.count())
		assert.Equal(t, []string{"initial b"}, bad.read())
		assert.True(t, handle.HasSynced())
	})
}

func TestPanicIsLoggedByTheLoggerOfItsHandlerOrOfRun(t *testing.T) {
	caught := catchPanics(t, false)
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		for _, own := range []bool{false, true} {
			s := NewTyped(configMaps(t, server))
			var options cache.HandlerOptions
			if own {
				options.Logger = zero(options.Logger)
			}
			_, err := s.AddEventHandlerWithOptions(&unsteady{left: 1}, options)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "Run's"))
			ended := make(chan struct{})
			go func() { defer close(ended); s.RunWithContext(ctx) }()
			synctest.Wait()
			cancel()
			<-ended
		}
		require.Equal(t, 2, caught.count())
		assert.Equal(t, "Run's", caught.ctxs[0].Value(key{}))
		assert.Nil(t, caught.ctxs[1].Value(key{}), "its own logger comes in a context of its own")
	})
}

// zero returns a pointer to a zero value of the type that another pointer has.
func zero[X any](*X) *X { return new(X) }
