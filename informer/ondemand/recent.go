package ondemand

import (
	"container/list"

	"github.com/kubereflector/kubereflector/store"
)

// recent keeps the most recently used objects, within limits. It is not safe for concurrent use.
type recent[T any] struct {
	options
	byKey map[store.Key]*list.Element // of *kept[T]
	order *list.List                  // the most recently used first
	size  int64
}

type kept[T any] struct {
	key    store.Key
	object T
	size   int64 // 0 without a limit of bytes
}

func newRecent[T any](o options) recent[T] {
	return recent[T]{options: o, byKey: map[store.Key]*list.Element{}, order: list.New()}
}

func (r *recent[T]) get(key store.Key) (object T, ok bool) {
	e, ok := r.byKey[key]
	if !ok {
		return object, false
	}
	return e.Value.(*kept[T]).object, true
}

// use notes that an object was used.
func (r *recent[T]) use(key store.Key) {
	if e, ok := r.byKey[key]; ok {
		r.order.MoveToFront(e)
	}
}

// put keeps an object, and evicts others if necessary.
func (r *recent[T]) put(key store.Key, object T, size int64) {
	r.drop(key)
	if r.objects == 0 || r.bytes > 0 && size > r.bytes {
		return
	}
	r.byKey[key] = r.order.PushFront(&kept[T]{key, object, size})
	r.size += size
	for r.order.Len() > r.objects || r.bytes > 0 && r.size > r.bytes {
		r.drop(r.order.Back().Value.(*kept[T]).key)
	}
}

func (r *recent[T]) drop(key store.Key) {
	if e, ok := r.byKey[key]; ok {
		r.size -= r.order.Remove(e).(*kept[T]).size
		delete(r.byKey, key)
	}
}

// dropUnless drops the objects for which a function returns false.
func (r *recent[T]) dropUnless(stays func(store.Key, T) bool) {
	for key, e := range r.byKey {
		if !stays(key, e.Value.(*kept[T]).object) {
			r.drop(key)
		}
	}
}
