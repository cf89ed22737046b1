package decode

import "hash/maphash"

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
	open := t.meter.open()
	if !open && t.asked != nil && t.meter.hopeless() {
		t.turn()
		t.turn()
		t.asked, t.noted = nil, 0
	}
	return open
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
