package eventqueue

import (
	"context"
	"errors"
	"fmt"
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

// storm is a run with real workers.
type storm struct {
	con     *consumer
	calm    atomic.Bool // handlers succeed from now on
	mu      sync.Mutex  // protects con, random and running
	running map[store.Key]bool
	random  *rand.Rand
}

func newStorm(p policy, seed uint64) (*Collection[*thing], *storm) {
	c := p.collection(WithPriority(seed%2 == 0), WithBackoff(time.Millisecond, time.Second))
	return c, &storm{con: newConsumer(p), running: map[store.Key]bool{}, random: rand.New(rand.NewPCG(seed, 2))}
}

// handle is a handler that ends in every way there is.
func (s *storm) handle(ctx context.Context, q *Queue[*thing]) error {
	s.mu.Lock()
	if s.running[q.Key()] {
		panic("two queues of one key are out")
	}
	s.running[q.Key()] = true
	s.con.check(panicking{}, q)
	how, after := s.random.IntN(9), s.random.IntN(q.Len())
	s.mu.Unlock()

	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, q.Key())
	}()
	acknowledge := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.con.acknowledge(q, n)
	}
	if s.calm.Load() {
		how = 0
	}
	if how > 4 {
		<-time.After(time.Duration(how) * time.Millisecond)
	}
	no := fmt.Errorf("no")
	switch how {
	case 1, 5:
		return no
	case 2, 6:
		panic("ouch")
	case 3:
		exit()
	case 4:
		n := 0
		acknowledge(after)
		return q.Each(ctx, func(Event[*thing]) error {
			if n++; n > after {
				return no
			}
			return nil
		})
	case 7:
		acknowledge(q.Len())
		return Permanent(no)
	}
	acknowledge(q.Len())
	return nil
}

// panicking is a require.TestingT for other goroutines than the test's.
type panicking struct{}

func (panicking) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panicking) FailNow()                          {}

// TestStorm runs several workers and several writers at once, with handlers that end
// in every way. What the handlers do wrong is found in the end: by then they know what
// the cache holds.
func TestStorm(t *testing.T) { underEachPolicy(t, runStorm) }

func underEachPolicy(t *testing.T, run func(t *testing.T, p policy, seed uint64)) {
	for _, p := range policies {
		t.Run(p.name, func(t *testing.T) {
			for seed := range uint64(20) {
				synctest.Test(t, func(t *testing.T) { run(t, p, seed) })
			}
		})
	}
}

func runStorm(t *testing.T, p policy, seed uint64) {
	c, s := newStorm(p, seed)
	defer c.Close()
	said := &history{policy{}, map[store.Key][]*thing{}}
	defer c.cache.Follow(said)()
	var wrong atomic.Value
	stop := processingReported(t, c, 3, s.handle, func(_ context.Context, err *HandlerError) {
		var panicked *PanicError
		if errors.As(err, &panicked) && panicked.Value != "ouch" && panicked.Value != ErrAbandoned {
			wrong.Store(err)
		}
	})
	writing(c, seed)()
	_ = c.Drain(t.Context()) // what has failed stays
	s.calm.Store(true)
	<-time.After(time.Minute)
	require.NoError(t, c.Drain(t.Context()))
	stop()
	require.Nil(t, wrong.Load())
	held := map[store.Key]*thing{}
	for k, o := range c.Cache().All() {
		held[k] = o
	}
	assert.Equal(t, held, s.con.known)
	if p.name == "KeepAll" {
		assert.Equal(t, said.all, s.con.told)
	}
	checkStats(t, c, 0)
}

// writing starts writers that do all that can be done to a collection. Each ends when it
// has done enough of it, or is refused.
func writing(c *Collection[*thing], seed uint64) (wait func()) {
	var version atomic.Int64
	var writers sync.WaitGroup
	for n := range uint64(3) {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, n+3))
			for range 60 {
				o := at(string(rune('a'+random.IntN(4))), []string{"u", "v", ""}[random.IntN(3)], int(version.Add(1)))
				switch random.IntN(8) {
				case 0, 1, 2:
					_ = c.Add(o)
				case 3, 4:
					_ = c.Delete(o)
				case 5:
					c.Resync()
				case 6:
					_ = c.Replace([]*thing{o, at("e", "w", int(version.Add(1)))}, o.version)
				case 7:
					<-time.After(time.Millisecond)
				}
			}
		})
	}
	return writers.Wait
}

// TestStormThatIsClosed closes a collection in the middle of a storm, while a consumer
// drains it. Then every consumer has to end, and no handler may be called any more.
func TestStormThatIsClosed(t *testing.T) { underEachPolicy(t, runClosedStorm) }

func runClosedStorm(t *testing.T, p policy, seed uint64) {
	c, s := newStorm(p, seed)
	var over atomic.Bool
	var ended sync.WaitGroup
	ended.Go(func() {
		c.Process(t.Context(), 3, func(ctx context.Context, q *Queue[*thing]) error {
			if over.Load() {
				t.Errorf("called with %q after the end", q.Key())
			}
			return s.handle(ctx, q)
		}, nil)
	})
	ended.Go(func() {
		for c.Drain(t.Context()); !c.IsClosed(); c.Drain(t.Context()) {
			<-time.After(time.Millisecond)
		}
	})
	wait := writing(c, seed)
	<-time.After(time.Duration(seed) * time.Millisecond / 4)
	c.Close()
	synctest.Wait() // a queue that was handed out before has reached its handler
	over.Store(true)
	wait()
	ended.Wait()
	assert.ErrorIs(t, c.Add(at("a", "u", 1000)), ErrClosed)
	stats := c.Stats()
	assert.Zero(t, stats.Keys+stats.Waiting+stats.Delayed+stats.InFlight+stats.Events+int(stats.Oldest))
	_, err := c.Take(t.Context())
	assert.ErrorIs(t, err, ErrClosed)
	assert.True(t, c.buffer.empty())
}
