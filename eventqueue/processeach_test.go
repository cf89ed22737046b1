package eventqueue

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProcessEachTellsEveryEventOnceInOrder has handlers that fail in every way; what they
// accept must be all there was.
func TestProcessEachTellsEveryEventOnceInOrder(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c := newThings(WithBackoff(time.Millisecond, time.Second))
			defer c.Close()
			said := &history{policy{}, map[store.Key][]*thing{}}
			defer c.cache.Follow(said)()

			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 1))
			told := map[store.Key][]*thing{}
			var failures atomic.Int64
			handle := func(_ context.Context, e Event[*thing]) error {
				mu.Lock()
				defer mu.Unlock()
				switch random.IntN(6) {
				case 0:
					return errors.New("no")
				case 1:
					panic("ouch")
				case 2:
					exit()
				}
				told[e.Key] = append(told[e.Key], e.Object)
				return nil
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				c.ProcessEach(ctx, 3, handle, func(context.Context, *HandlerError) { failures.Add(1) })
			})
			keys := rand.New(rand.NewPCG(seed, 2))
			for version := range 300 {
				o := at(string(rune('a'+keys.IntN(4))), []string{"u", "v"}[version%2], version+1)
				require.NoError(t, c.Add(o))
				if version%7 == 0 {
					<-time.After(time.Millisecond)
				}
			}
			<-time.After(time.Hour)
			stop()
			running.Wait()
			assert.Zero(t, c.Len())
			assert.Positive(t, failures.Load())
			assert.Equal(t, said.all, told)
		})
	}
}

// unruly is an error whose method panics.
type unruly struct{ error }

func (unruly) Is(error) bool { panic("from Is") }

// A panic that leaves the loop of a single worker reaches the caller, who may recover it.
func TestPanicOfAMethodOfAnErrorReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newThings()
		defer c.Close()
		require.NoError(t, c.Add(at("a", "u", 1)))
		ctx, cancel := context.WithCancel(t.Context())
		assert.PanicsWithValue(t, "from Is", func() {
			c.ProcessEach(ctx, 1, func(context.Context, Event[*thing]) error {
				cancel()
				return unruly{errNo}
			}, nil)
		})
	})
}
