package store

import "slices"

// termSet has the terms that the indexes found in one object, ordered by index and then by term.
// Two lie in the set itself, because caches with two indexes are common. More lie in a term of
// their own, the second of the set.
type termSet struct{ few [2]*term }

// terms returns what the set has. Writing to the slice writes to the set.
func (s *termSet) terms() []*term {
	switch {
	case s.few[0] == nil && s.few[1] == nil:
		return nil
	case s.few[0] == nil:
		return s.few[1].many
	case s.few[1] == nil:
		return s.few[:1]
	}
	return s.few[:]
}

// setTerms makes the set a copy of the given terms.
func (s *termSet) setTerms(terms []*term) {
	s.few = [len(s.few)]*term{}
	if len(terms) > len(s.few) {
		s.few[1] = &term{many: slices.Clone(terms)}
		return
	}
	copy(s.few[:], terms)
}

// section returns the terms of the index of a position.
func (s *termSet) section(position int32) []*term {
	terms := s.terms()
	from := 0
	for from < len(terms) && terms[from].index < position {
		from++
	}
	to := from
	for to < len(terms) && terms[to].index == position {
		to++
	}
	return terms[from:to]
}
