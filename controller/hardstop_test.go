package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHardStopEndsRunningAndDrainingWork(t *testing.T) {
	for _, name := range []string{"running", "finishing", "running, by its cause"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := newLines()
				var causes []error
				c := New((&feed{into: lines, lines: []string{"a", "b"}}).Run, lines, func(ctx context.Context, _ *eventqueue.Queue[string]) error {
					<-ctx.Done()
					causes = append(causes, context.Cause(ctx))
					return ctx.Err()
				}, WithDrainTimeout(time.Hour))
				running, end := context.WithCancelCause(t.Context())
				defer end(nil)
				outer, stopOuter := WithHardStop(running)
				defer stopOuter()
				inner, stopInner := WithHardStop(outer)
				defer stopInner()
				result := make(chan error, 1)
				go func() { result <- c.Run(inner) }()
				synctest.Wait()
				if name == "finishing" {
					end(nil)
					<-time.After(time.Minute)
					assert.Empty(t, causes, "it has time to finish")
				}
				before := time.Now()
				if name == "running, by its cause" {
					end(ErrStopNow)
				} else {
					stopOuter()
				}
				var left *eventqueue.DrainError
				require.ErrorAs(t, <-result, &left)
				assert.Zero(t, time.Since(before))
				assert.Equal(t, []error{ErrStopNow}, causes)
				assert.Equal(t, ErrStopNow, left.Cause)
				assert.Len(t, left.Pending, 2)
			})
		})
	}
}

func TestHardStopIsTheCauseOfTheEnd(t *testing.T) {
	ctx, hardStop := WithHardStop(t.Context())
	require.NoError(t, ctx.Err())
	hardStop()
	assert.Equal(t, ErrStopNow, context.Cause(ctx))
}

func TestHardStoppedReachesDrainingMembers(t *testing.T) {
	assert.Nil(t, HardStopped(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	ctx, hardStop := WithHardStop(ended)
	cancel()
	select {
	case <-HardStopped(ctx):
		assert.Fail(t, "there is time to finish")
	default:
	}
	hardStop()
	<-HardStopped(ctx)
	assert.ErrorIs(t, context.Cause(ctx), context.Canceled, "which says nothing of it")
}
