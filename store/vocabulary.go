package store

import (
	"errors"
	"fmt"
	"slices"
)

// vocabulary is the writer's side of an index: it turns the values of objects into terms.
// Guarded by Cache.writer, but for what is written once: name, position, values, compare.
type vocabulary[I comparable, T any] struct {
	name     string
	position int32
	values   func(T) []I
	compare  func(a, b I) int

	terms map[I]*term
	seq   uint64
}

// errCompare means that a compare function does not order values.
var errCompare = errors.New("the compare function says that a value differs from itself")

// less orders postings by value, then by key.
func (v *vocabulary[I, T]) less(a, b posting) bool {
	if a.term != b.term {
		if c := v.order(a.term, b.term); c != 0 {
			return c < 0
		}
	}
	return lessEntryOf(a, b)
}

// order orders terms by value.
func (v *vocabulary[I, T]) order(a, b *term) int {
	return v.compare(valueOf[I](a), valueOf[I](b))
}

// find runs the user's function and appends the terms of its values to into. If that ends the
// goroutine, the terms are given back, as after a panic.
//
// The terms of held are compared first, because that is quicker than the search of a map.
func (v *vocabulary[I, T]) find(into, held []*term, key Key, object T) (found []*term, err error) {
	found = into
	done := false
	defer func() {
		if done {
			return
		}
		for _, t := range found[len(into):] {
			v.release(t)
		}
		if value := recover(); value != nil {
			err = recovered(value)
		}
		found, err = into, fmt.Errorf("index %q: function for %.253q: %w", v.name, key, err)
	}()
	for i, value := range v.values(object) {
		if value != value {
			continue // a NaN: no search finds it
		}
		if i < len(held) && valueOf[I](held[i]) == value {
			held[i].uses++
			found = append(found, held[i])
			continue
		}
		var t *term
		if t, err = v.acquire(value); err != nil {
			return found, err
		}
		found = append(found, t)
	}
	done = true
	return found, nil
}

func (v *vocabulary[I, T]) acquire(value I) (*term, error) {
	if t := v.terms[value]; t != nil {
		t.uses++
		return t, nil
	}
	// The first call for a value is made here, where a panic rejects one object.
	if v.compare(value, value) != 0 {
		return nil, errCompare
	}
	v.seq++
	t := &term{index: v.position, value: value, uses: 1, seq: v.seq}
	v.terms[value] = t
	return t, nil
}

func (v *vocabulary[I, T]) release(t *term) {
	if t.uses--; t.uses == 0 {
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
	for _, value := range v.values(object) {
		if value == value && !slices.Contains(distinct, value) {
			distinct = append(distinct, value)
		}
	}
	return distinct
}
