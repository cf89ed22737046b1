package store

import "slices"

// transformStage is a [Stage] that keeps what a function makes of objects, in the stage of the
// store behind.
type transformStage[T, S any] struct {
	of   *transform[T, S]
	into Stage[S] // has the objects of changed, in their order
	put  int      // how many were

	// Places are the numbers of objects.
	changedAt, unchangedAt, lackingAt []int
	changed, unchanged                []Key
	lacking                           []Rejection
	dropped                           map[int]bool
}

// Stage implements [Stager].
func (t *transform[T, S]) Stage(of Store[T]) Stage[T] {
	if of != Store[T](t) {
		return nil
	}
	return &transformStage[T, S]{of: t, into: StageOf[S](t.dst)}
}

func (s *transformStage[T, S]) Put(object T, told Identity) error {
	place := s.put
	s.put++
	key, version, err := s.of.recognise(object, told)
	if err == nil && s.of.dst.Holds(key, version) {
		s.unchanged, s.unchangedAt = append(s.unchanged, key), append(s.unchangedAt, place)
		return nil
	}
	var result S
	if err == nil {
		result, err = s.of.call(object)
	}
	if err != nil {
		s.lacking, s.lackingAt = append(s.lacking, Rejection{Key: key, Version: version, Err: err}), append(s.lackingAt, place)
		return nil
	}
	s.changed, s.changedAt = append(s.changed, key), append(s.changedAt, place)
	return s.into.Put(result, Identity{key, version})
}

func (s *transformStage[T, S]) Drop(number int) {
	if s.dropped == nil {
		s.dropped = make(map[int]bool)
	}
	s.dropped[number] = true
	if n, ok := slices.BinarySearch(s.changedAt, number); ok {
		s.into.Drop(n)
	}
}

func (s *transformStage[T, S]) Commit(l Listing[T]) error {
	inUnchanged := group{s.unchangedAt, func(n int) Key { return s.unchanged[n] }}
	inLacking := group{s.lackingAt, func(n int) Key { return s.lacking[n].Key }}
	if len(s.dropped) > 0 {
		gone := func(place int, _ Key) bool { return s.dropped[place] }
		s.unchanged, s.lacking = drop(s.unchanged, inUnchanged, gone), drop(s.lacking, inLacking, gone)
		inUnchanged.places, inLacking.places = s.kept(s.unchangedAt), s.kept(s.lackingAt)
	}
	var kept []int // of changed, by their places in it
	inChanged := group{s.changedAt, func(n int) Key { return s.changed[n] }}
	if len(s.dropped) > 0 {
		for n, place := range s.changedAt {
			if !s.dropped[place] {
				kept = append(kept, n)
			}
		}
		inChanged = group{s.kept(s.changedAt), func(n int) Key { return s.changed[kept[n]] }}
	}
	out := superseded(inChanged, inUnchanged, inLacking)
	if out != nil {
		for n, place := range inChanged.places {
			if out(place, inChanged.key(n)) {
				if kept != nil {
					n = kept[n]
				}
				s.into.Drop(n)
			}
		}
	}
	return s.into.Commit(Listing[S]{
		Unchanged:       slices.Concat(l.Unchanged, s.unchanged), // Objects come before it anyway
		Lacking:         slices.Concat(l.Lacking, drop(s.lacking, inLacking, out)),
		ResourceVersion: l.ResourceVersion,
	})
}

// kept returns those places that were not dropped.
func (s *transformStage[T, S]) kept(places []int) []int {
	return slices.DeleteFunc(slices.Clone(places), func(place int) bool { return s.dropped[place] })
}

func (s *transformStage[T, S]) Discard() {
	s.into.Discard()
	*s = transformStage[T, S]{of: s.of, into: s.into}
}
