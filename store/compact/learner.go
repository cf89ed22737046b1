package compact

import (
	"encoding/binary"
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
	lastLook = 65_536

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
	content := common(taught, dictionarySize)
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

// gram is how many bytes are compared at once. Less is found by chance, and repeats within
// an object anyway.
const gram = 8

// common returns parts of texts that occur in others of them, each once, up to a size.
func common(texts [][]byte, size int) []byte {
	type occurrence struct {
		last int // the text in which it was last seen, from 1
		n    int // in so many texts
	}
	grams := map[uint64]occurrence{}
	for i, text := range texts {
		for at := 0; at+gram <= len(text); at++ {
			g := binary.LittleEndian.Uint64(text[at:])
			if o := grams[g]; o.last != i+1 {
				grams[g] = occurrence{i + 1, o.n + 1}
			}
		}
	}
	content := make([]byte, 0, size)
	for _, text := range texts {
		for at := 0; at+gram <= len(text); {
			end := at
			for end+gram <= len(text) {
				g := binary.LittleEndian.Uint64(text[end:])
				if grams[g].n < 2 {
					break
				}
				delete(grams, g)
				end++
			}
			if end == at {
				at++
				continue
			}
			part := text[at : end+gram-1]
			if len(content)+len(part) > size {
				return content
			}
			content = append(content, part...)
			at = end
		}
	}
	return content
}
