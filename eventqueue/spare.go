package eventqueue

// spare holds the lines of keys that were forgotten, for others: keys come and go
// with each event. Guarded by Collection.mu.
type spare[T any] struct {
	first *line[T]
	len   int
}

// linesAtOnce is the size of a block. It is small because one line in use keeps all of it.
const linesAtOnce = 8

// take returns an empty line. used is the number of lines in use: the more, the more
// are made at a time.
func (s *spare[T]) take(used int) *line[T] {
	if s.first == nil {
		made := make([]line[T], min(used/2+1, linesAtOnce))
		for i := range made {
			s.put(&made[i])
		}
	}
	l := s.first
	s.first, l.next = l.next, nil
	s.len--
	return l
}

func (s *spare[T]) put(l *line[T]) {
	*l = line[T]{next: s.first}
	s.first = l
	s.len++
}

// drop forgets all lines that are not in use. They are taken apart: one that shares its
// block with a line in use would keep all that it leads to.
func (s *spare[T]) drop() {
	for l := s.first; l != nil; {
		next := l.next
		l.next = nil
		l = next
	}
	s.first, s.len = nil, 0
}
