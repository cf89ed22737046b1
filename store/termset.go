package store

import "slices"

// termSet has the values that the indexes found in one object, ordered by index and then by
// term: see terms.
type termSet struct {
	few  [3]*term // or
	more *[]*term
}

// terms returns what the set has. Writing to the slice writes to the set.
func (s *termSet) terms() []*term {
	if s.more != nil {
		return *s.more
	}
	n := 0
	for n < len(s.few) && s.few[n] != nil {
		n++
	}
	return s.few[:n]
}

// setTerms makes the set a copy of the given terms.
func (s *termSet) setTerms(terms []*term) {
	s.few, s.more = [len(s.few)]*term{}, nil
	if len(terms) > len(s.few) {
		more := slices.Clone(terms)
		s.more = &more
		return
	}
	copy(s.few[:], terms)
}

// section returns the terms of the index of a position.
func (s *termSet) section(position int) []*term {
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
