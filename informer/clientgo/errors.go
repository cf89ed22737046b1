package clientgo

import (
	"errors"
	"fmt"
)

var (
	// ErrStarted means that an option was set after the informer was started.
	ErrStarted = errors.New("informer has started already: set it before Run")

	// ErrStopped means that an informer has ended. As in client-go, it cannot be started again, and
	// nothing can be added to it.
	ErrStopped = errors.New("it has stopped already")

	// ErrReadOnly means that code tried to write to the cache of an informer after the start. Only
	// its reflector may, unless the client is a test double. In a test, write before Run, let a server
	// hold the objects (package reflectortest), pass [WithLocalWrites], or give the code an [AsIndexer]
	// of a cache of your own.
	ErrReadOnly = errors.New("cache of a running informer is read-only: let its server hold the object, or in a test pass WithLocalWrites")

	// ErrNoSharedInformer means that the shared informer is nil.
	ErrNoSharedInformer = errors.New("no shared informer: pass one of client-go's, such as that of a factory")

	// ErrNoHandler means that the event handler is nil.
	ErrNoHandler = errors.New("no event handler: pass one, such as cache.ResourceEventHandlerFuncs")

	// ErrNoIndex means that the requested index was not added through this Indexer.
	ErrNoIndex = errors.New("there is no such index: add it by AddIndexers of the same Indexer, or in controller-runtime by IndexField")

	// ErrRegistration means that the registration to remove does not come from this package.
	ErrRegistration = errors.New("registration is not one of AddEventHandler of this package")
)

// TypeError means that an object has another Go type than the informer or the cache.
type TypeError struct {
	// Want and Got are Go types, such as "*v1.Pod".
	Want, Got string
}

// Error names both types.
func (e *TypeError) Error() string { return fmt.Sprintf("object is a %s, not a %s", e.Got, e.Want) }

// UnsupportedError means that a method of client-go's interface cannot do its work, because an
// informer of this module needs that setting when it is made.
type UnsupportedError struct {
	// Method is the called method, such as "SetTransform".
	Method string
	// Instead names the alternative.
	Instead string
}

// Error names the method and the alternative.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s does not work for an informer of AsSharedIndexInformer: %s", e.Method, e.Instead)
}

// typed returns an object as a T.
func typed[T any](object any) (T, error) {
	t, ok := object.(T)
	if !ok {
		return t, &TypeError{Want: typeName[T](), Got: fmt.Sprintf("%T", object)}
	}
	return t, nil
}
