package eventqueue

import (
	"hash/maphash"
	"iter"

	"github.com/kubereflector/kubereflector/store"
)

// lines maps keys to lines. Each event looks up, adds and removes a key, usually while there are
// few keys. A map hashes the three strings of a key in each step; lines hashes them once. It also
// releases memory as soon as few keys are left, which a map never does. Guarded by Collection.mu.
type lines[T any] struct {
	chains []*line[T] // the length is a power of two; a key's hash selects its chain
	len    int
}

// minChains is the smallest number of chains after the first key. A table of at most fewChains
// chains is not shrunk by remove.
const (
	minChains = 8
	fewChains = 1024
)

var keySeed = maphash.MakeSeed()

// hashOf returns the hash of a key. The hash differs between processes.
func hashOf(key store.Key) uint64 {
	const odd = 0x9e3779b97f4a7c15 // spreads the sum over all bits
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

// remove removes a line, and reports whether it released memory.
func (s *lines[T]) remove(l *line[T]) (shrunk bool) {
	next := s.chain(l.hash)
	for *next != l {
		next = &(*next).chained
	}
	*next, l.chained = l.chained, nil
	s.len--
	return len(s.chains) > fewChains && s.fit()
}

// fit shrinks the table if less than one eighth is in use, and reports whether it did.
func (s *lines[T]) fit() (shrunk bool) {
	if len(s.chains) <= minChains || s.len >= len(s.chains)/8 {
		return false
	}
	chains := minChains
	for chains < 2*s.len {
		chains *= 2 // leave room for as many keys again
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

// all iterates over the lines, in no order. The body must not add or remove lines.
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
