package clientgo

import (
	"errors"
	"fmt"
)

var (
	// ErrStarted means that something was set after the informer was started.
	ErrStarted = errors.New("informer has started already: set it before Run")

	// ErrStopped means that an informer has ended: as client-go's, it is not
	// started again, and nothing is added to it any more.
	ErrStopped = errors.New("informer has stopped already")

	// ErrReadOnly means that somebody tried to write to the cache of an informer.
	// Only its reflector does. In a test, let a server hold the objects (package
	// reflectortest), or give the code an [AsIndexer] of a cache of your own.
	ErrReadOnly = errors.New("cache of an informer is read-only: only its reflector writes to it")

	// ErrNoSharedInformer means that there is no shared informer to be fed from.
	ErrNoSharedInformer = errors.New("no shared informer: pass one of client-go's, such as that of a factory")

	// ErrNoHandler means that a nil was added as an event handler.
	ErrNoHandler = errors.New("no event handler: pass one, such as cache.ResourceEventHandlerFuncs")

	// ErrNoIndex means that an index was asked for that was not added through this
	// Indexer.
	ErrNoIndex = errors.New("there is no such index: add it by AddIndexers of the same Indexer")

	// ErrRegistration means that a registration was to be removed that does not come
	// from this package.
	ErrRegistration = errors.New("registration is not one of AddEventHandler of this package")
)

// TypeError means that an object was of another Go type than the informer's or the
// cache's.
type TypeError struct {
	// Want and Got are Go types, such as "*v1.Pod".
	Want, Got string
}

// Error names both types.
func (e *TypeError) Error() string { return fmt.Sprintf("object is a %s, not a %s", e.Got, e.Want) }

// UnsupportedError means that a method of client-go's cannot do its work, because what
// it sets is part of the making of an informer here.
type UnsupportedError struct {
	// Method is what was called, such as "SetTransform".
	Method string
	// Instead says what to do.
	Instead string
}

// Error names the method and what to use instead.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s works for informers made by NewSharedIndexInformer only; %s", e.Method, e.Instead)
}

// typed returns an object as a T.
func typed[T any](object any) (T, error) {
	t, ok := object.(T)
	if !ok {
		return t, &TypeError{Want: typeName[T](), Got: fmt.Sprintf("%T", object)}
	}
	return t, nil
}
