package ondemand

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kubereflector/kubereflector/internal/byreference"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// ErrNoClient means that [New] was given no function that returns clients, or that
	// it returned none.
	ErrNoClient = errors.New("no client: pass a function that returns one, such as clientset.CoreV1().Pods")

	// ErrNoMetadata means that [New] was given no cache of the metadata.
	ErrNoMetadata = errors.New("no cache of the metadata: pass that of an informer")

	// ErrNotSynced means that the cache of the metadata is not filled yet, so the existing objects
	// are unknown. Wait for its informer first.
	ErrNotSynced = errors.New("the metadata is not synced: wait for its informer")

	// ErrStale means that the server repeatedly returned an older state than the cached metadata: a
	// component in between is caching.
	ErrStale = errors.New("server answers with an older state than it told before")

	// ErrVersions means that the resource versions of the kind cannot be compared, or that its lists
	// have none. Then nothing says which of two answers is older, so cache the kind whole. The next
	// list with a version ends it.
	ErrVersions = byreference.ErrVersions

	// ErrClosed means that [Objects.Close] was called.
	ErrClosed = errors.New("closed")
)

// NotFoundError says that there is no such object.
type NotFoundError struct {
	Key store.Key
	// Err is the answer of the server; nil if the metadata does not have the object.
	Err error
}

// Error names the object.
func (e *NotFoundError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%q not found by the server, though its metadata is still in the cache: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("%q not found in the cache of the metadata", e.Key)
}

// Unwrap returns Err.
func (e *NotFoundError) Unwrap() error { return e.Err }

// Status makes apierrors.IsNotFound recognize the error.
func (e *NotFoundError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: e.Error()}
}

// FetchError says that an object could not be fetched.
type FetchError struct {
	Key store.Key
	// Err is the error of the client, [ErrStale], or a panic of the client, which wraps
	// [store.ErrPanic].
	Err error
}

// Error names the object and the cause.
func (e *FetchError) Error() string { return fmt.Sprintf("fetching %q: %v", e.Key, e.Err) }

// Unwrap returns Err.
func (e *FetchError) Unwrap() error { return e.Err }
