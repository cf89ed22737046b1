package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStopFinishesWhatWaitsAndSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"), configMap("c"))
		var got list
		stop := w.run(NewReconciler("test", w.configMaps, func(ctx context.Context, key store.Key) (Result, error) {
			<-time.After(time.Second)
			got.add(key.Name)
			if key.Name == "b" {
				return Result{}, errors.New("ouch")
			}
			return Result{RequeueAfter: time.Hour}, ctx.Err()
		}))
		synctest.Wait()
		err := stop()
		assert.Len(t, got.take(), 3)
		var left *eventqueue.DrainError
		require.ErrorAs(t, err, &left)
		require.Len(t, left.Left, 1)
		assert.Equal(t, "b", left.Left[0].Key.Name)
		assert.EqualError(t, left.Left[0].Err, "ouch")
		assert.NoError(t, left.Cause)
	})
}

func TestStopHasALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"))
		calls, reported := 0, 0
		stop := w.run(NewReconciler("test", w.configMaps, func(ctx context.Context, key store.Key) (Result, error) {
			calls++
			<-ctx.Done()
			return Result{}, ctx.Err()
		}, WithDrainTimeout(time.Minute), WithErrorHook(func(context.Context, error) { reported++ })))
		synctest.Wait()
		before := time.Now()
		err := stop()
		assert.Equal(t, time.Minute, time.Since(before))
		assert.Equal(t, 1, calls)
		assert.Zero(t, reported, "to be told to end is no failure")
		var left *eventqueue.DrainError
		require.ErrorAs(t, err, &left)
		assert.ErrorIs(t, err, ErrDrainTimeout)
		assert.Len(t, left.Left, 2)
	})
}

func TestHaltLeavesNoTimeToFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"))
		calls := 0
		r := NewReconciler("test", w.configMaps, func(ctx context.Context, key store.Key) (Result, error) {
			calls++
			<-ctx.Done()
			return Result{}, ctx.Err()
		})
		halted, halt := context.WithCancelCause(t.Context())
		stop := w.run(runFunc(func(context.Context) error { return r.Run(halted) }))
		synctest.Wait()
		before := time.Now()
		halt(ErrHalt)
		var left *eventqueue.DrainError
		require.ErrorAs(t, stop(), &left)
		assert.Zero(t, time.Since(before))
		assert.Len(t, left.Left, 2)
		assert.Equal(t, 1, calls)
	})
}

func TestRunAgainReconcilesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"), configMap("b"))
		var got list
		r := NewReconciler("test", w.configMaps, got.noting())
		var informers informer.Group
		informers.Add(w.configMaps)
		stopInformers := runMember(t, &informers)
		for range 2 {
			stop := runMember(t, r)
			synctest.Wait()
			require.NoError(t, stop())
			assert.Equal(t, []string{"a", "b"}, sorted(got.take()))
		}
		w.touch("a", "1")
		synctest.Wait()
		assert.Empty(t, got.take(), "it does not run")
		lists := len(w.server.Requests(reflectortest.Verb("list"))) + len(w.server.Requests(reflectortest.Verb("watch")))
		assert.Equal(t, 1, lists, "nothing is read again")
		require.NoError(t, stopInformers())
	})
}
