package store

import "slices"

// vocabulary is the writer's side of an index: it turns the values of objects
// into terms. Guarded by Cache.writer.
type vocabulary[I comparable, T any] struct {
	name     string
	position int
	values   func(into []I, object T) []I
	hash     func(I) uint64 // nil if the index orders by value

	// shared is false if each entry has terms of its own.
	shared bool
	terms  map[I]*term
	seq    uint64

	// buffer is memory for the user's function. What that returns is not kept: it
	// may be part of an object.
	buffer []I
}

// find runs the user's function and appends the terms of its values to into.
func (v *vocabulary[I, T]) find(into []*term, key Key, object T) (found []*term, err error) {
	found = into
	defer func() {
		if value := recover(); value != nil {
			for _, t := range found[len(into):] {
				v.release(t)
			}
			clear(v.buffer[:cap(v.buffer)])
			found, err = into, &IndexError{Index: v.name, Key: key, Err: recovered(value)}
		}
	}()
	values := v.values(v.buffer[:0], object)
	for _, value := range values {
		if value != value {
			continue // a NaN: nobody can look for it
		}
		found = append(found, v.acquire(value))
	}
	if len(values) > cap(v.buffer) && len(values) <= maxScratch {
		v.buffer = make([]I, 0, len(values))
	}
	clear(v.buffer[:min(len(values), cap(v.buffer))])
	return found, nil
}

func (v *vocabulary[I, T]) acquire(value I) *term {
	if v.shared {
		if t := v.terms[value]; t != nil {
			t.uses++
			return t
		}
	}
	t := &term{index: v.position, value: value, uses: 1}
	if v.hash != nil {
		t.hash = v.hash(value)
	}
	v.seq++
	t.seq = v.seq
	if v.shared {
		v.terms[value] = t
	}
	return t
}

func (v *vocabulary[I, T]) claim(t *term) {
	v.seq++
	t.seq = v.seq
}

func (v *vocabulary[I, T]) release(t *term) {
	if t.uses--; t.uses == 0 && v.shared {
		delete(v.terms, valueOf[I](t))
	}
}

// valueOf returns the value of a term. The nil of an I that is an interface is the
// nil of an any as well, which no type assertion without ok would take.
func valueOf[I comparable](t *term) I {
	value, _ := t.value.(I)
	return value
}

// of returns the distinct values of an object for a reader, who runs the user's
// function without a lock. There are none if the function panics: then the
// object never got into the index either.
func (v *vocabulary[I, T]) of(object T) (values []I) {
	defer func() {
		if recover() != nil {
			values = nil
		}
	}()
	var distinct []I
	for _, value := range v.values(nil, object) {
		if value == value && !slices.Contains(distinct, value) {
			distinct = append(distinct, value)
		}
	}
	return distinct
}
