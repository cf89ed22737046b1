package compact

import (
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// learner samples packed objects, and makes dictionaries of the sample.
type learner[T any] struct {
	// mu protects the fields below it.
	mu     sync.Mutex
	random *rand.Rand
	sample [][]byte // some of the objects since the last look
	seen   int      // objects since the last look
	look   int      // objects until the next look
}

const (
	// firstLook is so small that the size of the objects before it does not matter.
	firstLook = 16
	// The interval between looks grows by the factor rarer, up to lastLook.
	rarer    = 8
	lastLook = 4_096

	// sampled is the largest number of objects in a sample. The learner uses the first sampledBytes
	// of each object.
	sampled      = 64
	sampledBytes = 16 << 10

	// dictionarySize is in bytes. Twice the size saves 3% of pods, and makes each decoder slower.
	dictionarySize = 32 << 10

	// maxDictionaries is the largest number of dictionaries in use. Each has its content and a
	// decoder.
	maxDictionaries = 8
	// gain is the part of the packed size that a new dictionary must save.
	gain = 0.1
)

// observe samples an encoded object. Sometimes it learns, and returns a coder if that coder packs
// better than the current one.
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
		return nil // keep the current coder
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
	p.dictionaries.Add(1) // while objects refer to it
	runtime.AddCleanup(candidate.dictionary, func(n *atomic.Int32) { n.Add(-1) }, p.dictionaries)
	return candidate
}

const (
	// gram is how many bytes chosen compares at once.
	gram = 8
	// novelty is the part of an object that must be new before the object joins a dictionary.
	novelty = 1.0 / 8
)

// chosen returns texts that each differ from the texts before, up to a size. It takes whole texts:
// equal parts of another object are then at the same distance from beginning to end. For pods, that
// compresses a third better than any choice of parts.
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

// grams iterates over all sequences of gram bytes in a text.
func grams(text []byte) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for at := 0; at+gram <= len(text); at++ {
			if !yield(binary.LittleEndian.Uint64(text[at:])) {
				return
			}
		}
	}
}
