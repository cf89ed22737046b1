package store

import "fmt"

// applyOverride replaces the derived key and version by the ones that the write gives. It returns
// [ErrBadKey] if the derived key differs.
func applyOverride(overrideKey Key, overrideVersion Version, key Key, version Version, err error) (Key, Version, error) {
	if overrideVersion != (Version{}) {
		version = overrideVersion
	}
	if overrideKey == (Key{}) {
		return key, version, err
	}
	if err == nil && key != overrideKey {
		err = fmt.Errorf("%w: it is %.253q, but the write says %.253q; let the KeyFunc of a Transform agree with the store's", ErrBadKey, key, overrideKey)
	}
	return overrideKey, version, err
}
