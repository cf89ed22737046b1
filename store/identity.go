package store

import (
	"errors"
	"fmt"
)

// Identity is what is told of an object beside it, because the object may not say
// it: a [Transform] drops metadata, but not who an object is. The zero Identity
// tells nothing.
type Identity struct {
	// Key is the key that the object must have; zero for any. One with another
	// key is rejected with [ErrKeyMismatch]. An object that is rejected is
	// rejected under this key, so that what is held there stays. A deletion is
	// made under it, whatever the last state is.
	Key Key

	// Version is the version of the object; zero if the object says it.
	Version Version
}

// ErrKeyMismatch means that an object has another key than the one that was told
// beside it, so that nobody could delete it any more: the KeyFunc of a [Transform]
// and that of the store behind it do not agree.
var ErrKeyMismatch = errors.New("object has another key than what it was made of; let the KeyFunc of the Transform agree with that of the store behind it")

// check completes what was derived from an object by what was told beside it.
func (told Identity) check(key Key, version Version, err error) (Key, Version, error) {
	if told.Version != (Version{}) {
		version = told.Version
	}
	if told.Key == (Key{}) {
		return key, version, err
	}
	if err == nil && key != told.Key {
		err = fmt.Errorf("%w: %q", ErrKeyMismatch, key)
	}
	return told.Key, version, err
}
