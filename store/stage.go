package store

import "slices"

// Stage is where a list is gathered until it is complete. It is made anew for each list, and
// is for one goroutine; the store may be read and written meanwhile.
//
// What a Stage keeps of each object is up to the store: that is what bounds the memory of a
// list of which little is to be kept.
type Stage[T any] interface {
	// Put takes the next object of the list, and what is told of it as in [Listing]. Objects
	// have numbers, in the order in which they are put, from 0. An error ends the list: the
	// stage keeps nothing any more, and Commit returns the same error.
	Put(object T, told Identity) error
	// Drop takes back the object of a number.
	Drop(number int)
	// Commit gives the store a listing, as ReplaceAll does, whose Objects are those that were
	// put and not dropped. The Stage is over then, whatever comes of it.
	Commit(listing Listing[T]) error
	// Discard ends a Stage of which nothing is wanted any more. After a Commit it does nothing.
	Discard()
}

// Stager is a [BatchStore] that has a [Stage] of its own: see [StageOf].
type Stager[T any] interface {
	BatchStore[T]
	// Stage returns a new Stage of a store, or nil if that is another store than this one: a
	// type that embeds a Stager and overrides its methods is not to be gone past.
	Stage(of Store[T]) Stage[T]
}

// StageOf returns a Stage of a store: the store's own if it has one, and else one that keeps
// the objects and gives them to ReplaceAll, as [Batches] has it. A [Transform] keeps what its
// function makes of them instead, from when they are put.
func StageOf[T any](s Store[T]) Stage[T] {
	if own, ok := s.(Stager[T]); ok {
		if stage := own.Stage(s); stage != nil {
			return stage
		}
	}
	return &gathered[T]{into: Batches(s)}
}

// gathered is a Stage of whole objects.
type gathered[T any] struct {
	into    BatchStore[T]
	objects []T
	told    []Identity
	dropped map[int]bool
}

func (g *gathered[T]) Put(object T, told Identity) error {
	g.objects = append(g.objects, object)
	if told != (Identity{}) || len(g.told) > 0 {
		g.told = append(append(g.told, make([]Identity, len(g.objects)-1-len(g.told))...), told)
	}
	return nil
}

func (g *gathered[T]) Drop(number int) {
	if g.dropped == nil {
		g.dropped = make(map[int]bool)
	}
	var none T
	g.dropped[number], g.objects[number] = true, none
}

func (g *gathered[T]) Commit(l Listing[T]) error {
	l.Objects, l.Identities = without(g.objects, g.dropped), without(g.told, g.dropped)
	g.Discard()
	return g.into.ReplaceAll(l)
}

func (g *gathered[T]) Discard() { *g = gathered[T]{into: g.into} }

// without returns the elements of a slice but those of some numbers.
func without[E any](all []E, dropped map[int]bool) []E {
	if len(dropped) == 0 {
		return all
	}
	n := -1
	return slices.DeleteFunc(all, func(E) bool { n++; return dropped[n] })
}
