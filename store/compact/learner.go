package compact

import (
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"sync"
)

// learner looks at some of what is packed, and makes dictionaries of it.
type learner[T any] struct {
	// mu protects the fields below it.
	mu     sync.Mutex
	random *rand.Rand
	sample [][]byte // some of those since the last look
	seen   int      // since the last look
	look   int      // after so many
}

const (
	// firstLook is after so few objects that it does not matter how those before it are kept.
	firstLook = 16
	// looks become rarer by this factor, and not rarer than lastLook.
	rarer    = 8
	lastLook = 4_096

	// sampled is how many objects a dictionary is made of, at most, and sampledBytes how much
	// of each is looked at.
	sampled      = 64
	sampledBytes = 16 << 10

	// dictionarySize is in bytes. Twice as much saves 3% of pods, and costs each decoder time.
	dictionarySize = 32 << 10

	// maxDictionaries are in use at most, of which each has its size and a decoder.
	maxDictionaries = 8
	// gain is what a new dictionary has to save of what the old one leaves.
	gain = 0.1
)

func (l *learner[T]) begin() { l.random, l.look = rand.New(rand.NewPCG(1, 2)), firstLook }

// observe is told what is packed. It returns a coder that does better, when it has found
// one.
func (l *learner[T]) observe(p *Packer[T], plain []byte) *coder[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen++
	kept := plain[:min(len(plain), sampledBytes)]
	switch place := l.random.IntN(l.seen); {
	case len(l.sample) < sampled:
		l.sample = append(l.sample, append([]byte(nil), kept...))
	case place < sampled:
		l.sample[place] = append(l.sample[place][:0], kept...)
	}
	if l.seen < l.look {
		return nil
	}
	found := l.learn(p)
	l.seen, l.sample, l.look = 0, nil, min(l.look*rarer, lastLook)
	return found
}

// learn makes a dictionary of half of the sample, and tries it on the other half.
func (l *learner[T]) learn(p *Packer[T]) *coder[T] {
	if p.dictionaries.Load() >= maxDictionaries {
		return nil
	}
	var taught, tried [][]byte
	for i, plain := range l.sample {
		if i%2 == 0 {
			taught = append(taught, plain)
		} else {
			tried = append(tried, plain)
		}
	}
	content := chosen(taught, dictionarySize)
	if len(content) == 0 {
		return nil
	}
	candidate, err := newCoder(p, content)
	if err != nil {
		return nil // and the old one goes on
	}
	current, before, after := p.current.Load(), 0, 0
	var frame []byte
	for _, plain := range tried {
		frame = current.encoder.EncodeAll(plain, frame[:0])
		before += len(frame)
		frame = candidate.encoder.EncodeAll(plain, frame[:0])
		after += len(frame)
	}
	if float64(after) > (1-gain)*float64(before) {
		return nil
	}
	p.adopt(candidate)
	return candidate
}

const (
	// gram is how many bytes are compared at once to find out what is new in a text.
	gram = 8
	// novelty is what part of an object has to be new for it to become part of a dictionary.
	novelty = 1.0 / 8
)

// chosen returns texts that are each unlike those before, up to a size. They are whole:
// what is the same in another object is then at the same distance from beginning to end,
// which compresses better than any choice of parts, by a third for pods.
func chosen(texts [][]byte, size int) (content []byte) {
	seen := make(map[uint64]struct{}, 2*size)
	for _, text := range texts {
		if len(content)+len(text) > size {
			continue
		}
		news := 0
		for g := range grams(text) {
			if _, known := seen[g]; !known {
				news++
			}
		}
		if float64(news) < novelty*float64(len(text)) {
			continue
		}
		for g := range grams(text) {
			seen[g] = struct{}{}
		}
		content = append(content, text...)
	}
	return content
}

// grams iterates over all that is so long in a text.
func grams(text []byte) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for at := 0; at+gram <= len(text); at++ {
			if !yield(binary.LittleEndian.Uint64(text[at:])) {
				return
			}
		}
	}
}
