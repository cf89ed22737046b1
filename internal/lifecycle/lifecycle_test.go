package lifecycle

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneRunAtATime(t *testing.T) {
	var r Running
	assert.False(t, r.Active())
	end, err := r.Begin("informer pods")
	require.NoError(t, err)
	assert.True(t, r.Active())

	_, err = r.Begin("informer pods")
	require.ErrorIs(t, err, ErrRunning)
	assert.EqualError(t, err, "informer pods is running already: call Run again when it has returned")

	end()
	assert.False(t, r.Active())
	end, err = r.Begin("informer pods")
	require.NoError(t, err, "a Run that failed to begin must not end the other one")
	end()
}

type state struct {
	phase string
	seen  int // does not count
}

func samePhase(a, b *state) bool { return a.phase == b.phase }

func TestChangedIsClosedByAChangeThatCounts(t *testing.T) {
	s := NewStatus(state{phase: "a"}, samePhase)
	changed := s.Changed(s.Get())
	s.Set(func(s *state) { s.seen++ })
	assert.False(t, IsClosed(changed))
	assert.Equal(t, state{"a", 1}, s.Get())
	s.Set(func(s *state) { s.phase = "b" })
	assert.True(t, IsClosed(changed))
	assert.False(t, IsClosed(s.Changed(s.Get())), "the next change is another one")
}

func TestChangedIsClosedForAStateThatIsOver(t *testing.T) {
	s := NewStatus(state{phase: "a"}, samePhase)
	seen := s.Get()
	s.Set(func(s *state) { s.phase = "b" })
	assert.True(t, IsClosed(s.Changed(seen)))
}

func TestOnChangeIsCalledForChangesThatCount(t *testing.T) {
	s := NewStatus(state{phase: "a"}, samePhase)
	var seen []string
	s.OnChange(func() { seen = append(seen, s.Get().phase) }) // Get works: no lock is held
	s.Set(func(s *state) { s.seen++ })
	s.Set(func(s *state) { s.phase = "b" })
	assert.Equal(t, []string{"b"}, seen)
}

func TestAnnouncementWakesAllThatWait(t *testing.T) {
	var c Changes
	c.Announce()
	one, two := c.Next(), c.Next()
	assert.False(t, IsClosed(one))
	c.Announce()
	assert.True(t, IsClosed(one) && IsClosed(two))
	assert.False(t, IsClosed(c.Next()))
}

func TestLatchIsSetOnce(t *testing.T) {
	l := NewLatch()
	assert.False(t, l.IsSet())
	assert.True(t, l.Set())
	assert.False(t, l.Set())
	assert.True(t, l.IsSet())
	<-l.Done()
}

func TestWaitForALatchSaysWhyItIsNotSet(t *testing.T) {
	l, why, cause := NewLatch(), errors.New("no list yet"), errors.New("got SIGTERM")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	err := l.Wait(ctx, func() error { return why })
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, cause)
	l.Set()
	assert.NoError(t, l.Wait(ctx, func() error { return why }), "an ended context does not count then")
}

func TestPanicOfAnErrorHandlerIsLogged(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	failure := errors.New("ouch")
	var got error
	HandleError(t.Context(), zap.New(core), func(_ context.Context, err error) { got = err; panic("hook") }, failure, zap.String("key", "a/b"))
	assert.Equal(t, failure, got)
	require.Equal(t, 1, logs.Len())
	assert.Equal(t, "error handler panicked", logs.All()[0].Message)
	assert.Equal(t, "a/b", logs.All()[0].ContextMap()["key"])
	HandleError(t.Context(), zap.New(core), nil, failure)
	assert.Equal(t, 1, logs.Len(), "a nil handler is none")
}
