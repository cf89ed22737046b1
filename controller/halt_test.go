package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHaltEndsWhatRunsAndWhatFinishes(t *testing.T) {
	for name, finishing := range map[string]bool{"running": false, "finishing": true} {
		for kind, member := range map[string]func(w *world, work func(context.Context) error) interface{ Run(context.Context) error }{
			"reconciler": func(w *world, work func(context.Context) error) interface{ Run(context.Context) error } {
				w.create(configMap("a"), configMap("b"))
				return NewReconciler("test", w.configMaps, func(ctx context.Context, _ store.Key) (Result, error) {
					return Result{}, work(ctx)
				}, WithDrainTimeout(time.Hour))
			},
			"controller": func(_ *world, work func(context.Context) error) interface{ Run(context.Context) error } {
				lines := newLines()
				return New(&feed{into: lines, lines: []string{"a", "b"}}, lines, func(ctx context.Context, _ *eventqueue.Queue[string]) error {
					return work(ctx)
				}, WithDrainTimeout(time.Hour))
			},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					var causes []error
					r := member(w, func(ctx context.Context) error {
						<-ctx.Done()
						causes = append(causes, context.Cause(ctx))
						return ctx.Err()
					})
					running, end := context.WithCancel(t.Context())
					defer end()
					outer, haltOuter := WithHalt(running)
					inner, haltInner := WithHalt(outer)
					defer haltInner()
					stop := w.run(runFunc(func(context.Context) error { return r.Run(inner) }))
					synctest.Wait()
					if finishing {
						end()
						<-time.After(time.Minute)
						assert.Empty(t, causes, "it has time to finish")
					}
					before := time.Now()
					haltOuter()
					var left *eventqueue.DrainError
					require.ErrorAs(t, stop(), &left)
					assert.Zero(t, time.Since(before))
					assert.Equal(t, []error{ErrHalt}, causes)
					assert.Equal(t, ErrHalt, left.Cause)
					assert.Len(t, left.Pending, 2)
				})
			})
		}
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
