package decode

// table keeps values by the bytes that they were decoded from. It has two generations: when
// the young one is full the old one is dropped, so that what is in use stays.
type table[X any] struct {
	young, old map[string]X
	size       int // bytes of the keys in young
	meter      meter
}

const (
	// A generation is full with so many values or so many bytes of keys.
	fullValues = 4096
	fullBytes  = 512 << 10
)

// open reports whether the table should be asked this time.
func (t *table[X]) open() bool {
	open := t.meter.open()
	if !open && t.young != nil {
		t.young, t.old, t.size = nil, nil, 0
	}
	return open
}

// get returns the value that was decoded from the bytes before.
func (t *table[X]) get(key []byte) (X, bool) {
	x, ok := t.young[string(key)]
	if !ok {
		if x, ok = t.old[string(key)]; ok {
			t.put(key, x)
		}
	}
	t.meter.count(len(key), ok)
	return x, ok
}

// put keeps a value.
func (t *table[X]) put(key []byte, x X) {
	if t.young == nil {
		t.young = make(map[string]X)
	}
	if len(t.young) >= fullValues || t.size+len(key) > fullBytes {
		t.old, t.young, t.size = t.young, make(map[string]X), 0
	}
	if len(key) <= fullBytes {
		t.young[string(key)] = x
		t.size += len(key)
	}
}
