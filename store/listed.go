package store

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// listed is a write of a list. A write without a key is a rejection.
type listed[T any] struct {
	key      Key
	number   int // the number of the write
	what     listing
	override bool // true if the write gives the version
	object   T
	version  Version
	entry    *entry[T] // nil if it is not prepared. Cache.writer guards its terms.
	err      error     // of a rejection
}

// listing says what the commit does with a write.
type listing uint8

const (
	isListed     listing = iota
	isKept               // the store has the listed version, or the listed one is outdated
	isRejected           // the key keeps its old object
	isOutOfScope         // rejected; the commit deletes an old object of this partition under the key
	isAbsent             // a Deletion took the key back: settle drops it and all earlier writes
)

func (l *listed[T]) reject(err error) {
	var none T
	l.what, l.object, l.err = isRejected, none, err
}

// overrideVersion returns the version that the write gives; none if the object has it itself.
func (l *listed[T]) overrideVersion() Version {
	if !l.override {
		return Version{}
	}
	return l.version
}

// gathered is the part of a budget that a pending list uses.
type gathered struct {
	shares map[Key]int64 // bytes of the admitted objects
	// over counts, for each key, the rejected states since the last admitted one. rejected is the
	// sum. The zero Key stands for objects without a key.
	over     map[Key]int
	rejected int
}

// gather counts an object in the budget, and rejects it if it exceeds the budget. It returns false
// if the list must end, because the budget rejected too many of its objects. The caller holds
// writer.
func (b *replaceBatch[T]) gather(l *listed[T]) bool {
	if b.gathered == nil {
		b.gathered = &gathered{shares: make(map[Key]int64), over: make(map[Key]int)}
	}
	g, c := b.gathered, b.of.of
	b.takeBack(l.key)
	switch l.what {
	case isListed:
		share, err := c.budget.gather(c, l.key, l.object)
		if err == nil {
			g.shares[l.key] = share
			g.forgive(l.key)
			return true
		}
		l.reject(err)
	case isRejected:
	default:
		g.forgive(l.key)
		return true
	}
	// A substring would keep the memory of the whole object.
	l.key = Key{strings.Clone(l.key.Cluster), strings.Clone(l.key.Namespace), strings.Clone(l.key.Name)}
	l.version = Version{types.UID(strings.Clone(string(l.version.UID))), strings.Clone(l.version.ResourceVersion)}
	g.over[l.key]++
	g.rejected++
	return g.rejected <= maxOverBudget
}

// forgive forgets the rejected states of a key, after a later state was admitted.
func (g *gathered) forgive(key Key) {
	if key != (Key{}) {
		g.rejected -= g.over[key]
		delete(g.over, key)
	}
}

// takeBack releases the budget of an earlier write of a key. The caller holds writer.
func (b *replaceBatch[T]) takeBack(key Key) {
	if share, ok := b.gathered.shares[key]; ok {
		b.of.of.budget.giveBack(share)
		delete(b.gathered.shares, key)
	}
}
