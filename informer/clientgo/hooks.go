package clientgo

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/reflector"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// hooks are the functions that client-go allows to set after an informer was made. The reflector
// reads them.
type hooks[T any] struct {
	name string // the informer's name
	// prepare runs for each object before the transform. It may be nil.
	prepare func(T) (T, error)
	// copies is true if objects share parts, so that a transform needs a copy. T is then a
	// runtime.Object.
	copies    bool
	transform atomic.Pointer[cache.TransformFunc]
	watch     atomic.Pointer[cache.WatchErrorHandlerWithContext]

	standIn     *cache.Reflector
	makeStandIn sync.Once
}

// SetTransform sets a function that runs once for every object before the object is stored. The
// function may change the object, or return another one of the same type and with the same key. If
// it returns an error, the object is not stored, and is fetched again after a back-off. Objects of
// a [client.Resource] share equal parts: the function must replace their maps and slices and not
// edit them, unless the Resource was made with [client.WithoutInterning].
//
// It returns [ErrStarted] after the start. For an informer of
// [AsSharedIndexInformer] it returns an [*UnsupportedError].
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

// SetWatchErrorHandlerWithContext sets a handler for each failure of a list or watch that is
// retried. A failed watch-list is only logged, as in client-go, unless the server does not serve the
// resource. The error is a [*reflector.Error]. The Reflector argument of the handler only has a
// name; it does nothing. The default, also for a nil handler, is cache.DefaultWatchErrorHandler.
//
// It returns [ErrStarted] after the start. For an informer of
// [AsSharedIndexInformer] it returns an [*UnsupportedError].
func (s *SharedIndexInformer[T]) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	return s.set("SetWatchErrorHandler", "give the function to informer.WithErrorHandler", func(h *hooks[T]) {
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
	if s.startedLocked() {
		return ErrStarted
	}
	set(s.hooks)
	return nil
}

// transformed returns an object as the cache stores it.
func (h *hooks[T]) transformed(object T) (T, error) {
	if h.prepare != nil {
		var err error
		if object, err = h.prepare(object); err != nil {
			return object, err
		}
	}
	transform := h.transform.Load()
	if transform == nil {
		return object, nil
	}
	if h.copies {
		object = any(object).(runtime.Object).DeepCopyObject().(T)
	}
	result, err := (*transform)(object)
	if err != nil {
		var none T
		return none, err
	}
	return typed[T](result)
}

// failed is the error handler of the reflector.
func (h *hooks[T]) failed(ctx context.Context, err error) {
	defer utilruntime.HandleCrashWithContext(ctx)
	if failure, ok := errors.AsType[*reflector.Error](err); ok {
		switch failure.Op {
		case opStore:
			utilruntime.HandleErrorWithContext(ctx, err, "Object was not stored", "reflector", h.name)
			return
		case opWatchList: // as in client-go, only a log line: the handler gets the failure of the list
			if errors.Is(err, reflector.ErrNotServed) {
				break // the reflector does not list
			}
			klog.FromContext(ctx).Error(err, "Watch-list failed, the reflector lists or asks again", "reflector", h.name)
			return
		}
	}
	if handler := h.watch.Load(); handler != nil {
		(*handler)(ctx, h.reflector(), err)
		return
	}
	cache.DefaultWatchErrorHandler(ctx, h.reflector(), err)
}

// reflector returns a stand-in with a name, which handlers of client-go ask for, such as the
// default one.
func (h *hooks[T]) reflector() *cache.Reflector {
	h.makeStandIn.Do(func() {
		h.standIn = cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, cache.NewStore(cache.MetaNamespaceKeyFunc),
			cache.ReflectorOptions{Name: h.name, TypeDescription: h.name})
	})
	return h.standIn
}
