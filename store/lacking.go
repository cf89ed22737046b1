package store

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
