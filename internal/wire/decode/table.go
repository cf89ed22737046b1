package decode

import (
	"hash/maphash"
	"reflect"
)

// table stores values by the bytes that they were decoded from. It stores a value only at the
// second lookup of its bytes, so unique values cost no memory. It has two generations: when the
// young one is full, the table drops the old one. Values in use move to the young one and stay.
type table[X any] struct {
	young, old map[uint64]entry[X]
	size       int      // bytes of the keys in young
	oldSize    int      // bytes of the keys in old
	kept       *int     // bytes of the keys in all tables of the decoder
	asked      []uint64 // hashes of keys, each in one of two places
	noted      int      // the number of hashes since asked got its size
	meter      meter
}

// entry has its whole key, because two keys may have the same hash.
type entry[X any] struct {
	key   string
	value X
}

// answer is the result of a lookup without a hit.
type answer struct {
	hash uint64
	keep bool // store the value: this is the second lookup
}

const (
	// A generation is full with so many values or so many bytes of keys.
	fullValues = 4096
	fullBytes  = 512 << 10
	// All tables of a decoder drop their old generations after this number of bytes of keys.
	mostKept = 4 << 20
	// The numbers of remembered hashes of first lookups: few at first, since most resources have
	// few objects.
	fewAsked  = 512
	mostAsked = 4096
)

var seed = maphash.MakeSeed()

// open reports whether to look up a value. The table keeps its contents during the first pause: if
// objects come in random order, a period is too short to see most values twice.
func (t *table[X]) open() bool {
	if t.meter.pause == 0 {
		return true
	}
	t.meter.pause--
	if hopeless := t.meter.last > firstPause; hopeless && t.asked != nil {
		t.turn()
		t.turn()
		t.asked, t.noted = nil, 0
	}
	return false
}

// get returns the value that was decoded from the same bytes before.
func (t *table[X]) get(key []byte) (X, answer, bool) {
	hash := maphash.Bytes(seed, key)
	e, ok := t.young[hash]
	if !ok {
		if e, ok = t.old[hash]; ok {
			t.add(hash, e)
		}
	}
	if ok && e.key == string(key) {
		t.meter.count(len(key), len(key))
		return e.value, answer{}, true
	}
	if t.noted++; t.noted > len(t.asked) && len(t.asked) < mostAsked {
		t.asked, t.noted = make([]uint64, min(max(fewAsked, 4*len(t.asked)), mostAsked)), 0
	}
	before := t.asked[hash&uint64(len(t.asked)/2-1)*2:][:2] // the length is a power of two
	a := answer{hash: hash, keep: (before[0] == hash || before[1] == hash) && len(key) <= fullBytes}
	before[0], before[1] = hash, before[0]
	t.meter.count(len(key), 0)
	var none X
	return none, a, false
}

// put stores a value, if the answer asks for it.
func (t *table[X]) put(a answer, key []byte, value X) {
	if a.keep {
		t.add(a.hash, entry[X]{key: string(key), value: value})
	}
}

func (t *table[X]) add(hash uint64, e entry[X]) {
	if t.young == nil || len(t.young) >= fullValues || t.size+len(e.key) > fullBytes {
		t.turn()
		t.young = make(map[uint64]entry[X])
	}
	t.young[hash] = e
	t.size += len(e.key)
	*t.kept += len(e.key)
}

// turn drops the old generation.
func (t *table[X]) turn() {
	*t.kept -= t.oldSize
	t.old, t.oldSize, t.young, t.size = t.young, t.size, nil, 0
}

// meter decides whether lookups in a table pay off. It counts bytes: a longer found value saves
// more. It counts only lookups that happened, so pauses of other tables do not affect it.
type meter struct {
	asked        int // lookups in this period
	bytes, found int
	pause        int // values to skip until the next period
	last         int // the length of the last pause; 0 if the last period was good
}

const (
	// The number of lookups in a period. A period after a bad one is shorter.
	period      = 512
	shortPeriod = period / 4
	// One byte in so many must be found: that is about the cost of a lookup relative to its saving.
	worth = 4
	// The number of skipped values after a bad period. It doubles after each further one, up to the
	// largest.
	firstPause = 8 * period
	mostPause  = 256 * period
)

// count records a lookup: its bytes, and how many of them were found.
func (m *meter) count(bytes, found int) {
	m.asked++
	m.bytes += bytes
	m.found += found
	if m.asked < period && (m.asked < shortPeriod || m.last == 0) {
		return
	}
	if m.found*worth < m.bytes {
		m.last = min(max(2*m.last, firstPause), mostPause)
		m.pause = m.last
	} else {
		m.last = 0
	}
	m.asked, m.bytes, m.found = 0, 0, 0
}

// clip removes the spare capacity of all slices in v, so that append copies them. Slices in maps or
// behind an any keep theirs.
func clip(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Len() < v.Cap() {
			v.Set(v.Slice3(0, v.Len(), v.Len()))
		}
		if e := v.Type().Elem().Kind(); e <= reflect.Complex128 || e == reflect.String {
			return // such elements have no slices
		}
		for i := range v.Len() {
			clip(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			clip(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				clip(f)
			}
		}
	}
}
