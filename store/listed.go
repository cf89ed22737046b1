package store

// listed is what a list says of a key. Without a key it is a rejection.
type listed[T any] struct {
	key      Key
	number   int // of the write
	what     listing
	override bool // whether the write gives the version
	object   T
	version  Version
	entry    *entry[T] // nil if it is not prepared. Its terms are guarded by Cache.writer.
	err      error     // of a rejection
}

// listing says what becomes of a key.
type listing uint8

const (
	isListed     listing = iota
	isKept               // the store has the listed version, or the listed one is outdated
	isRejected           // the key keeps its old object
	isOutOfScope         // rejected; an old object of this partition under the key is deleted
	isAbsent             // a Deletion took the key back: settle drops it and all earlier writes
)

func (l *listed[T]) reject(err error) {
	var none T
	l.what, l.object, l.err = isRejected, none, err
}

// overrideVersion returns the version that the write gives; none if the object tells it.
func (l *listed[T]) overrideVersion() Version {
	if !l.override {
		return Version{}
	}
	return l.version
}
