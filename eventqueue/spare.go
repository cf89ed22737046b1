package eventqueue

// spare holds unused lines for new keys, because keys come and go with each event. Guarded by
// Collection.mu.
type spare[T any] struct {
	first *line[T]
	len   int
}

// linesAtOnce is the largest number of lines in one block. It is small because one line in use
// keeps its whole block in memory.
const linesAtOnce = 8

// take returns an empty line. The argument used is the number of lines in use. take allocates
// larger blocks when more lines are in use.
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

// drop forgets all unused lines. It unlinks them, because an unused line that shares its block with
// a line in use would keep the rest of the list in memory.
func (s *spare[T]) drop() {
	for l := s.first; l != nil; {
		next := l.next
		l.next = nil
		l = next
	}
	s.first, s.len = nil, 0
}
