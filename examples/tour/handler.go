package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// call is what a handler got.
type call struct {
	what           string // Addition, OnAdd and so on
	pod            string
	prior, version string // resource versions; prior is empty if there is none
	notes          string // what else the event says
}

func (c call) String() string {
	text := c.what + " of " + c.pod + " v"
	if c.prior != "" {
		text += c.prior + " → v"
	}
	return text + c.version + c.notes
}

// handler records its calls. A call of a slow handler lasts until turn.
type handler struct {
	turns, ended chan struct{} // nil if the handler is not slow

	mu     sync.Mutex
	calls  []call
	inHand bool // the last call has not ended
	took   int  // how many events the queue had that was taken last
	passed int  // how many of them the handler got
}

// taken is called when a queue is taken.
func (h *handler) taken(queue eventqueue.TakeInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took, h.passed = queue.Events, 0
}

func newSlow() *handler {
	return &handler{turns: make(chan struct{}), ended: make(chan struct{})}
}

// handle makes a call.
func (h *handler) handle(ctx context.Context, c call) {
	h.mu.Lock()
	h.calls, h.inHand = append(h.calls, c), h.turns != nil
	h.passed++
	h.mu.Unlock()
	if h.turns == nil {
		return
	}
	select {
	case <-h.turns:
	case <-ctx.Done():
		return
	}
	h.mu.Lock()
	h.inHand = false
	h.mu.Unlock()
	select {
	case h.ended <- struct{}{}:
	case <-ctx.Done():
	}
}

// turn ends the call of a slow handler, if it is in one.
func (h *handler) turn(ctx context.Context) {
	if !h.busy() {
		return
	}
	select {
	case h.turns <- struct{}{}:
	case <-ctx.Done():
		return
	}
	select {
	case <-h.ended:
	case <-ctx.Done():
	}
}

func (h *handler) state() (calls []call, inHand bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls), h.inHand
}

// lastQueue returns how many events the queue had that was taken last, and how many of them the handler got.
func (h *handler) lastQueue() (took, passed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.took, h.passed
}

// busy reports whether h exists and is in a call.
func (h *handler) busy() bool {
	if h == nil {
		return false
	}
	_, inHand := h.state()
	return inHand
}

// Handle implements informer.Handler.
func (h *handler) Handle(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
	c := call{what: e.Type.String(), pod: e.Key.Name, version: e.Object.ResourceVersion}
	if e.Type == eventqueue.Modification {
		c.prior = e.Prior.ResourceVersion
	}
	if e.Initial {
		c.notes = ", initial"
	}
	if e.Type == eventqueue.Deletion && !e.FinalStateKnown {
		c.notes = ", final state unknown"
	}
	h.handle(ctx, c)
	return nil
}

// picky is a handler that fails on pods that have failed.
type picky struct{ handler }

// Handle implements informer.Handler.
func (p *picky) Handle(ctx context.Context, e eventqueue.Event[*corev1.Pod]) error {
	if err := p.handler.Handle(ctx, e); err != nil {
		return err
	}
	if e.Object.Status.Phase == corev1.PodFailed {
		return errors.New("pod " + e.Key.Name + " has failed")
	}
	return nil
}

// clientGo returns the handler as one of client-go.
func (h *handler) clientGo(ctx context.Context) cache.ResourceEventHandler {
	version := func(object any) (name, version string) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		pod, ok := object.(*corev1.Pod)
		if !ok {
			panic(fmt.Sprintf("client-go passed a %T", object))
		}
		return pod.Name, pod.ResourceVersion
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			name, v := version(object)
			h.handle(ctx, call{what: "OnAdd", pod: name, version: v})
		},
		UpdateFunc: func(old, object any) {
			name, v := version(object)
			_, prior := version(old)
			h.handle(ctx, call{what: "OnUpdate", pod: name, prior: prior, version: v})
		},
		DeleteFunc: func(object any) {
			name, v := version(object)
			h.handle(ctx, call{what: "OnDelete", pod: name, version: v})
		},
	}
}
