package simulate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	controllerfailure "github.com/kubereflector/kubereflector/internal/failure"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// handlers replaces apimachinery's handlers of panics and errors while runs play, because these are package
// variables: the one for errors sleeps until some time after the last error, and that was in another bubble,
// whose time was decades later. It also hears of the panics that this library's controllers recover.
var handlers errorHandlers

type errorHandlers struct {
	mu     sync.Mutex
	worlds []*world // guarded by mu

	// What is restored when no run plays any more; guarded by mu.
	panics []func(context.Context, any)
	errors []utilruntime.ErrorHandler
	crash  bool
}

type worldKey struct{}

// use notes panics in w until the returned function is called.
func (h *errorHandlers) use(w *world) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.worlds) == 0 {
		h.panics, h.errors, h.crash = utilruntime.PanicHandlers, utilruntime.ErrorHandlers, utilruntime.ReallyCrash
		utilruntime.ReallyCrash = false
		utilruntime.ErrorHandlers = nil
		utilruntime.PanicHandlers = []func(context.Context, any){h.note}
		controllerfailure.PanicHook.Store(new(h.note))
	}
	h.worlds = append(h.worlds, w)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.worlds = slices.DeleteFunc(h.worlds, func(other *world) bool { return other == w })
		if len(h.worlds) == 0 {
			utilruntime.PanicHandlers, utilruntime.ErrorHandlers, utilruntime.ReallyCrash = h.panics, h.errors, h.crash
			controllerfailure.PanicHook.Store(nil)
		}
	}
}

// note notes a panic in its run, or in all runs if the context does not say which one it is.
func (h *errorHandlers) note(ctx context.Context, value any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	worlds := h.worlds
	if w, ok := ctx.Value(worldKey{}).(*world); ok {
		worlds = []*world{w}
	}
	for _, w := range worlds {
		w.mu.Lock()
		w.panics = append(w.panics, fmt.Sprintf("%.300v", value))
		w.doubtful = w.doubtful || len(worlds) > 1
		w.mu.Unlock()
	}
}
