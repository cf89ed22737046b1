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

func TestHaltEndsWhatRunsAndWhatFinishes(t *testing.T) {
	for name, finishing := range map[string]bool{"running": false, "finishing": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := newLines()
				var causes []error
				c := New(&feed{into: lines, lines: []string{"a", "b"}}, lines, func(ctx context.Context, _ *eventqueue.Queue[string]) error {
					<-ctx.Done()
					causes = append(causes, context.Cause(ctx))
					return ctx.Err()
				}, WithDrainTimeout(time.Hour))
				running, end := context.WithCancel(t.Context())
				defer end()
				outer, haltOuter := WithHalt(running)
				inner, haltInner := WithHalt(outer)
				defer haltInner()
				result := make(chan error, 1)
				go func() { result <- c.Run(inner) }()
				synctest.Wait()
				if finishing {
					end()
					<-time.After(time.Minute)
					assert.Empty(t, causes, "it has time to finish")
				}
				before := time.Now()
				haltOuter()
				var left *eventqueue.DrainError
				require.ErrorAs(t, <-result, &left)
				assert.Zero(t, time.Since(before))
				assert.Equal(t, []error{ErrHalt}, causes)
				assert.Equal(t, ErrHalt, left.Cause)
				assert.Len(t, left.Pending, 2)
			})
		})
	}
}

func TestHaltIsTheCauseOfTheEnd(t *testing.T) {
	ctx, halt := WithHalt(t.Context())
	require.NoError(t, ctx.Err())
	halt()
	assert.Equal(t, ErrHalt, context.Cause(ctx))
}

func TestHaltedTellsWhoeverFinishes(t *testing.T) {
	assert.Nil(t, Halted(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	ctx, halt := WithHalt(ended)
	cancel()
	select {
	case <-Halted(ctx):
		assert.Fail(t, "there is time to finish")
	default:
	}
	halt()
	<-Halted(ctx)
	assert.ErrorIs(t, context.Cause(ctx), context.Canceled, "which says nothing of it")
}
