package eventqueue

import (
	"reflect"

	"github.com/kubereflector/kubereflector/store/memsize"
)

// sample is the largest number of objects that Bytes measures to estimate the size of all objects.
const sample = 1024

// Bytes estimates the memory that the queues take beyond the cache: the events, and their objects
// that the cache does not hold, or no longer holds. The function size returns the size of one
// object; nil means [memsize.Of]. Bytes measures a sample of many objects.
//
// Bytes locks the collection while it visits all events, so call it only from time to time. It
// calls size without a lock.
func (c *Collection[T]) Bytes(size func(T) int64) int64 {
	if size == nil {
		size = memsize.Of[T]
	}
	objects, events := c.beyond()
	bytes := int64(events) * int64(reflect.TypeFor[record[T]]().Size())
	if len(objects) == 0 {
		return bytes
	}
	step := (len(objects) + sample - 1) / sample
	var measured, of int64
	for i := 0; i < len(objects); i += step {
		measured += size(objects[i])
		of++
	}
	return bytes + measured*int64(len(objects))/of
}

// beyond returns the objects that are in queues but not in the cache, and the number of events.
func (c *Collection[T]) beyond() (objects []T, events int) {
	c.lock()
	defer c.mu.Unlock()
	for k := range c.keys.all() {
		held, ok := c.cache.Get(k.key)
		first := len(objects)
		add := func(object T) {
			if ok && same(object, held) {
				return
			}
			// The object of an event is the prior one of the next.
			for _, before := range objects[max(first, len(objects)-2):] {
				if same(object, before) {
					return
				}
			}
			objects = append(objects, object)
		}
		for b := range k.backlogs() {
			events += len(b.events)
			for i := range b.events {
				if e := &b.events[i]; e.PriorKnown {
					add(e.Prior)
				}
				add(b.events[i].Object)
			}
		}
	}
	return objects, events
}

// same reports whether two values are one object. It returns false for values that cannot be
// compared.
func same[T any](a, b T) bool {
	if reflect.TypeFor[T]().Kind() != reflect.Pointer {
		v, w := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
		if !v.Comparable() || !w.Comparable() {
			return false
		}
	}
	return any(a) == any(b)
}
