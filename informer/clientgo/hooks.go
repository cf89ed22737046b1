package clientgo

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/reflector"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// hooks are what client-go lets one set after an informer was made. They are read by the
// reflector.
type hooks[T any] struct {
	name      string // the informer's
	transform atomic.Pointer[cache.TransformFunc]
	watch     atomic.Pointer[cache.WatchErrorHandlerWithContext]

	standIn     *cache.Reflector
	makeStandIn sync.Once
}

// SetTransform sets a function that every object goes through once before it is stored;
// it may change the object or return another one of the same type and with the same key.
// An object that it refuses is not stored, and fetched again after a back-off. Objects of
// a [reflector.Resource] share equal parts: of them it must replace maps and slices and not
// edit them, unless the Resource was made with [reflector.WithoutSharing].
//
// It returns [ErrStarted] after the start. For an informer that was not made by
// [NewSharedIndexInformer] it returns an [*UnsupportedError].
func (s *SharedIndexInformer[T]) SetTransform(transform cache.TransformFunc) error {
	return s.set("SetTransform", "give the function to informer.NewTransformed", func(h *hooks[T]) {
		if transform == nil {
			h.transform.Store(nil)
			return
		}
		h.transform.Store(&transform)
	})
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext for a handler without a
// context.
func (s *SharedIndexInformer[T]) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	if handler == nil {
		return s.SetWatchErrorHandlerWithContext(nil)
	}
	return s.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets who is told of each list and watch that failed
// and is tried again: the error is a [*reflector.Error]. The Reflector that the handler
// gets is there for its name only; it does nothing. The default, and that of a nil
// handler, is cache.DefaultWatchErrorHandler.
//
// It returns [ErrStarted] after the start. For an informer that was not made by
// [NewSharedIndexInformer] it returns an [*UnsupportedError].
func (s *SharedIndexInformer[T]) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	return s.set("SetWatchErrorHandler", "give the function to informer.WithErrorHook", func(h *hooks[T]) {
		if handler == nil {
			h.watch.Store(nil)
			return
		}
		h.watch.Store(&handler)
	})
}

func (s *SharedIndexInformer[T]) set(method, instead string, set func(*hooks[T])) error {
	if s.hooks == nil {
		return &UnsupportedError{Method: method, Instead: instead}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil || s.informer.State() != (reflector.State{Phase: reflector.Stopped}) {
		return ErrStarted
	}
	set(s.hooks)
	return nil
}

// transformed is the function of the informer's Transform.
func (h *hooks[T]) transformed(object T) (T, error) {
	transform := h.transform.Load()
	if transform == nil {
		return object, nil
	}
	result, err := (*transform)(object)
	if err != nil {
		var none T
		return none, err
	}
	return typed[T](result)
}

// failed is the error hook of the reflector.
func (h *hooks[T]) failed(ctx context.Context, err error) {
	defer utilruntime.HandleCrashWithContext(ctx)
	if failure, ok := errors.AsType[*reflector.Error](err); ok && failure.Op == reflector.OpStore {
		utilruntime.HandleErrorWithContext(ctx, err, "Object was not stored", "reflector", h.name)
		return
	}
	if handler := h.watch.Load(); handler != nil {
		(*handler)(ctx, h.reflector(), err)
		return
	}
	cache.DefaultWatchErrorHandler(ctx, h.reflector(), err)
}

// reflector returns something that handlers of client-go, the default one above all, can
// ask for its name.
func (h *hooks[T]) reflector() *cache.Reflector {
	h.makeStandIn.Do(func() {
		h.standIn = cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, cache.NewStore(cache.MetaNamespaceKeyFunc),
			cache.ReflectorOptions{Name: h.name, TypeDescription: typeName[T]()})
	})
	return h.standIn
}
