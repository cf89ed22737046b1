package eventqueue

import (
	"hash/maphash"
	"iter"

	"github.com/kubereflector/kubereflector/store"
)

// lines finds the line of a key. Each event looks for a key, adds it and removes it
// again, at a time when there are few of them. A map hashes the three strings of a key
// each time; this does it once. It gives back the memory of many keys as soon as few of
// them are left, which a map never does. Guarded by Collection.mu.
type lines[T any] struct {
	chains []*line[T] // as many as a power of two; a key's hash tells its chain
	len    int
}

// minChains is how few chains there are at least, once there was a key, and fewChains
// how few are not worth giving back.
const (
	minChains = 8
	fewChains = 1024
)

var keySeed = maphash.MakeSeed()

// hashOf returns the hash of a key, which is another one in each process.
func hashOf(key store.Key) uint64 {
	const odd = 0x9e3779b97f4a7c15 // spreads what is added over all bits
	h := maphash.String(keySeed, key.Name) + odd*maphash.String(keySeed, key.Namespace)
	if key.Cluster != "" {
		h = h*odd + maphash.String(keySeed, key.Cluster)
	}
	return h
}

// get returns the line of a key, or nil, and the key's hash.
func (s *lines[T]) get(key store.Key) (l *line[T], h uint64) {
	h = hashOf(key)
	if s.len == 0 {
		return nil, h
	}
	for l = *s.chain(h); l != nil; l = l.chained {
		if l.hash == h && l.key == key {
			break
		}
	}
	return l, h
}

func (s *lines[T]) chain(h uint64) **line[T] { return &s.chains[h&uint64(len(s.chains)-1)] }

// add adds a line with a key that no other line has.
func (s *lines[T]) add(l *line[T]) {
	if s.len >= len(s.chains) {
		s.resize(max(2*len(s.chains), minChains))
	}
	s.len++
	s.link(l)
}

func (s *lines[T]) link(l *line[T]) {
	chain := s.chain(l.hash)
	l.chained, *chain = *chain, l
}

// remove removes a line, and reports whether that gave memory back.
func (s *lines[T]) remove(l *line[T]) (shrunk bool) {
	next := s.chain(l.hash)
	for *next != l {
		next = &(*next).chained
	}
	*next, l.chained = l.chained, nil
	s.len--
	return len(s.chains) > fewChains && s.fit()
}

// fit gives back what is not needed if that is a good part, and reports whether it is.
func (s *lines[T]) fit() (shrunk bool) {
	if len(s.chains) <= minChains || s.len >= len(s.chains)/8 {
		return false
	}
	chains := minChains
	for chains < 2*s.len {
		chains *= 2 // as many keys again have room
	}
	s.resize(chains)
	return true
}

func (s *lines[T]) resize(chains int) {
	old := s.chains
	s.chains = make([]*line[T], chains)
	for _, l := range old {
		for l != nil {
			next := l.chained
			s.link(l)
			l = next
		}
	}
}

// all iterates over the lines, in no order. The body must not add or remove any.
func (s *lines[T]) all() iter.Seq[*line[T]] {
	return func(yield func(*line[T]) bool) {
		for _, l := range s.chains {
			for ; l != nil; l = l.chained {
				if !yield(l) {
					return
				}
			}
		}
	}
}
