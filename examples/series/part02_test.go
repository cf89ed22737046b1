package series

import (
	"context"
	"testing"
	"time"

	libcontroller "github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

// idle is a Controller by its interface. client-go has one: dummyController.
type idle struct{}

func (idle) Run(context.Context)             {}
func (idle) HasSynced() bool                 { return true }
func (idle) LastSyncResourceVersion() string { return "" }

// A program waits until a controller has synced. Was its function called with the pod?
func TestPart02AControllerNeedNotDoAnything(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		var c Controller[pod] = idle{}
		c.Run(ctx)
		assert.True(t, c.HasSynced(), "although it asked the server for nothing")
		assert.Empty(t, w.Requests())
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		pods, called := eventqueue.New(store.ObjectKey[pod]), 0
		c := libcontroller.New(reflector.New(w.pods, pods).Run, pods, libcontroller.Each(
			func(_ context.Context, event eventqueue.Event[pod]) error { called++; return nil }))
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		assert.NoError(t, c.Run(ctx))
		assert.Equal(t, 1, called)

		incomplete := libcontroller.New[pod](nil, nil, nil)
		assert.ErrorIs(t, incomplete.Run(ctx), libcontroller.ErrIncomplete)
		select {
		case <-incomplete.Synced():
			t.Error("a controller without a queue has synced")
		default:
		}
	})
}
