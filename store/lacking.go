package store

import (
	"maps"
	"slices"
)

// lacking is what a store was told and could not take in: while there is any, its
// resource version must not move past it.
type lacking struct {
	keys    map[Key]bool
	unnamed bool // there was at least one without a key
}

func (l *lacking) add(key Key) {
	if key == (Key{}) {
		l.unnamed = true
		return
	}
	if l.keys == nil {
		l.keys = make(map[Key]bool)
	}
	l.keys[key] = true
}

func (l *lacking) remove(key Key) { delete(l.keys, key) }

func (l *lacking) any() bool { return l.unnamed || len(l.keys) > 0 }

// in reports whether there is any in a scope.
func (l *lacking) in(scope Scope) bool {
	for key := range l.keys {
		if scope.contains(key) {
			return true
		}
	}
	return false
}

// forget leaves out what is in a scope.
func (l *lacking) forget(scope Scope) {
	maps.DeleteFunc(l.keys, func(key Key, _ bool) bool { return scope.contains(key) })
}

// all returns the keys, in no order; the zero Key stands for those without one.
func (l *lacking) all() []Key {
	keys := slices.AppendSeq(make([]Key, 0, len(l.keys)+1), maps.Keys(l.keys))
	if l.unnamed {
		keys = append(keys, Key{})
	}
	return keys
}
