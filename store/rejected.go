package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/internal/panicked"
)

// ErrPanic means that a function of the user panicked: a KeyFunc, an index function, or a function
// of package decorate. The store rejects the object. The error that wraps it has the value and the
// stack; but if functions panic on more than 100 objects of a list, only the errors of 100 have them.
var ErrPanic = panicked.Err

// Rejection is one object that a [Store] rejected.
type Rejection struct {
	// Key is the object's key; zero if the object has none.
	Key Key
	// Version is the version of the rejected state, as far as it is known.
	Version Version
	// Err says why.
	Err error
}

// Error names the key, the resource version and the cause.
func (r Rejection) Error() string {
	name := "object without a key"
	if r.Key != (Key{}) {
		name = fmt.Sprintf("%.253q", r.Key) // no longer name is valid
	}
	if r.Version.ResourceVersion != "" {
		name += fmt.Sprintf(" at resource version %.64q", r.Version.ResourceVersion)
	}
	return fmt.Sprintf("%s: %v", name, r.Err)
}

// RejectedError names the objects that a [Store] rejected. The store has stored all other objects of
// the write. It still holds the old objects under the rejected keys.
type RejectedError struct {
	// Rejections holds at least one element. After a list, rejections of objects without a key come
	// first, and the others in the order of their keys.
	Rejections []Rejection
}

// maxListed bounds the length of a message when a whole list is bad.
const maxListed = 5

// Error lists the first few rejections and the number of the others.
func (e *RejectedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "store rejected %d object(s): ", len(e.Rejections))
	for i, r := range e.Rejections {
		if i == maxListed {
			fmt.Fprintf(&b, "; and %d more", len(e.Rejections)-maxListed)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(r.Error())
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *RejectedError) Unwrap() []error {
	errs := make([]error, len(e.Rejections))
	for i, r := range e.Rejections {
		errs[i] = r.Err
	}
	return errs
}

// rejectedError returns the error for some rejections, nil for none.
func rejectedError(rejections []Rejection) error {
	if len(rejections) == 0 {
		return nil
	}
	return &RejectedError{Rejections: rejections}
}

// rejectedKeys are the keys that a partition rejected and has not stored or deleted since. While
// there are any, the partition's resource version stays before them (store-S5). The zero Key stands
// for objects without a key, and is in no scope.
type rejectedKeys map[Key]bool

func (r *rejectedKeys) add(key Key) {
	if *r == nil {
		*r = make(rejectedKeys)
	}
	(*r)[key] = true
}

// Rejected returns, in order, the keys that hold back the resource version of the partition. The
// cache rejected an object under each key, and has not stored or deleted it since (store-S5). The
// zero Key stands for objects without a key.
func (p *Partition[T]) Rejected() []Key { return p.cache.rejected(&p.progress) }

// Rejected is [Partition.Rejected] for the cache itself.
func (v *View[T]) Rejected() []Key { return v.of.rejected(&v.of.own) }

func (c *Cache[T]) rejected(of *progress) []Key {
	c.mu.RLock()
	keys := slices.Collect(maps.Keys(of.rejected))
	c.mu.RUnlock()
	sortKeys(keys)
	return keys
}

// sortKeys is not inlined, so that packages with a cache do not compile the sort again.
//
//go:noinline
func sortKeys(keys []Key) { slices.SortFunc(keys, Key.Compare) }
