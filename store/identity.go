package store

import (
	"errors"
	"fmt"
)

// ErrKeyMismatch means that an object has another key than its [Write] says, so that no deletion
// would find it: the KeyFunc of a decorate.Transform and that of the store behind it do not agree.
var ErrKeyMismatch = errors.New("object has another key than what it was made of; let the KeyFunc of the Transform agree with that of the store behind it")

// applyOverride replaces the derived key and version by the ones that the write gives. It returns
// [ErrKeyMismatch] if the derived key differs.
func applyOverride(overrideKey Key, overrideVersion Version, key Key, version Version, err error) (Key, Version, error) {
	if overrideVersion != (Version{}) {
		version = overrideVersion
	}
	if overrideKey == (Key{}) {
		return key, version, err
	}
	if err == nil && key != overrideKey {
		err = fmt.Errorf("%w: %q", ErrKeyMismatch, key)
	}
	return overrideKey, version, err
}
