package faults

import (
	"context"
	"fmt"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// state is what is compared of an object.
type state struct {
	uid     types.UID
	version string
	content string // labels and data
}

func (s state) String() string {
	return fmt.Sprintf("version %s of UID %s (%s)", s.version, s.uid, s.content)
}

// stateOf returns the state of an object, without its data if partial.
func stateOf(object metav1.Object, partial bool) state {
	var data map[string]string
	switch o := object.(type) {
	case *corev1.ConfigMap:
		data = o.Data
	case *unstructured.Unstructured:
		data, _, _ = unstructured.NestedStringMap(o.Object, "data")
	}
	if partial {
		data = nil
	}
	return state{object.GetUID(), object.GetResourceVersion(), fmt.Sprint(object.GetLabels(), data)}
}

func keyOf(object metav1.Object) store.Key {
	return store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// history checks events, reads and calls when they come, and keeps what the events add up to.
type history struct {
	mu       sync.Mutex // protects the fields below it
	restored bool       // the server may have lost versions
	shown    map[store.Key]state
	newest   map[store.Key]string // the newest version of an event
	read     map[store.Key]string // the newest version of a read
	gone     map[types.UID]string // what was said to be deleted, and how
	wrong    []string
}

func newHistory() *history {
	h := &history{shown: map[store.Key]state{}}
	h.forget()
	return h
}

// forget begins anew with versions.
func (h *history) forget() {
	h.newest, h.read, h.gone = map[store.Key]string{}, map[store.Key]string{}, map[types.UID]string{}
}

func (h *history) wrongLocked(format string, arguments ...any) {
	if len(h.wrong) < 10 {
		h.wrong = append(h.wrong, fmt.Sprintf(format, arguments...))
	}
}

// laterLocked notes a version in one of the maps, and reports one that is earlier than the newest.
func (h *history) laterLocked(what string, newest map[store.Key]string, key store.Key, is state) {
	before, known := newest[key]
	if order, err := resourceversion.CompareResourceVersion(is.version, before); known && !h.restored && (err != nil || order < 0) {
		h.wrongLocked("%s of %s goes back to %v after version %s", what, key, is, before)
		return
	}
	newest[key] = is.version
}

func (h *history) event(kind eventqueue.Type, object metav1.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, is := keyOf(object), stateOf(object, false)
	h.laterLocked(kind.String(), h.newest, key, is)
	was, known := h.shown[key]
	switch {
	case kind == eventqueue.Addition && known,
		kind == eventqueue.Modification && !known,
		kind != eventqueue.Addition && known && was.uid != is.uid:
		h.wrongLocked("%s of %s to %v does not follow %v", kind, key, is, was)
	}
	if kind == eventqueue.Deletion {
		delete(h.shown, key)
		h.gone[is.uid] = fmt.Sprintf("a deletion of %s, %v", key, is)
	} else {
		h.shown[key] = is
	}
}

// got notes what a read returned.
func (h *history) got(object metav1.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.laterLocked("a read", h.read, keyOf(object), stateOf(object, false))
}

// called notes the call of a reconcile function. Calls show the state of an object, as events do.
func (h *history) called(key store.Key, object *corev1.ConfigMap) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if object != nil {
		h.laterLocked("a call", h.newest, key, stateOf(object, false))
		h.shown[key] = stateOf(object, false)
		return
	}
	if was, known := h.shown[key]; known {
		h.gone[was.uid] = fmt.Sprintf("a call with nil for %s, last called with %v", key, was)
	}
	delete(h.shown, key)
}

// keys returns what exists, as far as events say so.
func (h *history) keys() (keys []store.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.shown {
		keys = append(keys, key)
	}
	return keys
}

// follow returns a handler of an informer.
func follow[T metav1.Object](h *history) informer.Handler[T] {
	return informer.HandlerFunc[T](func(_ context.Context, e eventqueue.Event[T]) error {
		h.event(e.Type, e.Object)
		return nil
	})
}

// followed returns a handler for client-go's interfaces.
func followed(h *history) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { h.event(eventqueue.Addition, object.(metav1.Object)) },
		UpdateFunc: func(_, object any) { h.event(eventqueue.Modification, object.(metav1.Object)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			h.event(eventqueue.Deletion, object.(metav1.Object))
		},
	}
}
