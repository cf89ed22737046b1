package series

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	libcontroller "github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

var errTryAgain = errors.New("try again")

// A function fails once.
func TestPart03WhatFailsIsNotRetried(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		calls := 0
		queue := NewEventQueueCollection(&Map[pod]{})
		go NewController(Config[pod]{FromClient(w.pods), queue, func(*EventQueue[pod]) error {
			calls++
			return errTryAgain
		}}).Run(ctx)
		<-time.After(time.Hour)
		synctest.Wait()
		assert.Equal(t, 1, calls)
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		calls := 0
		pods := eventqueue.New(store.ObjectKey[pod])
		c := libcontroller.New(reflector.New(w.pods, pods).Run, pods,
			func(context.Context, *eventqueue.Queue[pod]) error {
				if calls++; calls == 1 {
					return errTryAgain
				}
				return nil
			})
		go func() { assert.NoError(t, c.Run(ctx)) }()
		<-time.After(time.Hour)
		synctest.Wait()
		assert.Equal(t, 2, calls)
	})
}

// A handler looks into the store at its first call. The server has two pods.
func TestPart03AHandlerSeesHalfOfTheList(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "db", "web")
		look := &looking{}
		known, c := NewInformer(FromClient(w.pods), look)
		look.count = func() int { return len(known.List()) }
		go c.Run(ctx)
		synctest.Wait()
		assert.Equal(t, []int{1, 2}, look.seen)
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "db", "web")
		pods := informer.New(w.pods)
		look := &looking{count: func() int { return pods.Cache().Len() }}
		pods.Handle(informer.HandlerFuncs[pod]{OnAdd: func(p pod, _ bool) { look.OnAdd(p) }})
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		synctest.Wait()
		assert.Equal(t, []int{2, 2}, look.seen)
	})
}

// looking is a handler that counts the objects of the store.
type looking struct {
	notes
	count func() int
	seen  []int
}

func (l *looking) OnAdd(pod) { l.seen = append(l.seen, l.count()) }
