package clientgo

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// handler is the event handler of a Feed at a shared informer. It takes any because it is a
// cache.ResourceEventHandler, whose objects may be tombstones.
type handler[T any] struct {
	of  *Feed[T]
	run *feedRun[T]
}

var _ cache.ResourceEventHandler = handler[any]{}

func (h handler[T]) OnAdd(object any, _ bool) { h.put(object, false, h.of.to.Add) }

func (h handler[T]) OnUpdate(prior, object any) {
	h.put(object, unchanged(prior, object), h.of.to.Update)
}

// put stores an existing object. It skips a known state, unless the store lacks the object.
func (h handler[T]) put(object any, known bool, write func(T) error) {
	h.of.do(h.run, func() (store.Key, error) {
		key, err := h.of.keyOf(object)
		if err != nil || known && !h.of.lacking[key] {
			return key, err
		}
		t, err := typed[T](object)
		if err != nil || h.run.first == nil {
			if err == nil {
				err = write(t)
			}
			return key, err
		}
		h.run.first[key] = t
		h.run.saw(object)
		return key, nil
	})
}

func (h handler[T]) OnDelete(object any) {
	h.of.do(h.run, func() (store.Key, error) {
		key, err := h.of.keyOf(object)
		switch {
		case err != nil:
			return key, err
		case h.run.first != nil:
			delete(h.run.first, key)
			h.run.saw(object)
			return key, nil
		}
		if _, lost := object.(cache.DeletedFinalStateUnknown); lost {
			return key, h.of.to.DeleteKey(key) // its object is not the final state
		}
		t, err := typed[T](object)
		if err != nil {
			return key, h.of.to.DeleteKey(key) // it was never stored
		}
		return key, h.of.to.Delete(t)
	})
}

// saw records the version of an object: events come in the order of versions.
func (r *feedRun[T]) saw(object any) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return
	}
	version := accessor.GetResourceVersion()
	if r.version == "" {
		r.version = version
	} else if order, err := resourceversion.CompareResourceVersion(version, r.version); err == nil && order > 0 {
		r.version = version
	}
}

// keyOf returns the key of an object, by the store's KeyOf if it has one. For a
// DeletedFinalStateUnknown it returns the key of the contained object, if there is one.
func (f *Feed[T]) keyOf(object any) (store.Key, error) {
	inner := object
	if lost, ok := object.(cache.DeletedFinalStateUnknown); ok {
		inner = lost.Obj
	}
	t, isT := inner.(T)
	keyed, says := f.to.(interface{ KeyOf(T) (store.Key, error) })
	if isT && says {
		return keyed.KeyOf(t)
	}
	text, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	return namespaced("", text), err
}

// unchanged reports whether an update changes nothing.
func unchanged(prior, object any) bool {
	before, ok := versionOf(prior)
	after, too := versionOf(object)
	return ok && too && before == after && store.EqualContent(prior, object)
}

func versionOf(object any) (store.Version, bool) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return store.Version{}, false
	}
	return store.Version{UID: accessor.GetUID(), ResourceVersion: accessor.GetResourceVersion()}, true
}
