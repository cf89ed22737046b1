package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/ours"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// ErrNotWanted means that nobody wants a kind in the form and the namespaces that a reader asks for, or that
// its informer has ended with an error, which [Owner.Ready] has.
var ErrNotWanted = errors.New("kind is not wanted in this form, or its informer has failed (see Owner.Ready): call Want first")

// Get returns the object of a kind that a cache of the fleet holds, for readers that know the kind only
// by name. T is the form in which somebody wants the kind, such as [*unstructured.Unstructured]. A kind
// without a version is read in any version that somebody wants. Of several informers that would have the object,
// Get reads one without an error if it can, rather one of all namespaces, and rather one of a newer version.
//
// An object may come with an error, and is then the last known one: the kind is not served, the watch is
// broken, or the cache is not filled. It is the error of [informer.Informer.Ready], but slow subscribers do not
// count. So no object and an error does not mean that there is none. If nobody wants the kind in this form,
// in all namespaces or in that of the key, and without selectors, the error is [ErrNotWanted]. All readers
// share the object: copy it before you change it.
func Get[T reflector.Object](f *Fleet, kind schema.GroupVersionKind, key store.Key) (object T, found bool, err error) {
	from, problem := informerOf[T](f, kind, key.Namespace)
	if from == nil {
		return object, false, problem
	}
	object, found = from.Cache().Get(key)
	return object, found, problem
}

// List returns the objects of a kind in a namespace, or in all of them if it is empty. It is otherwise
// like [Get]: the objects come with an error that says why the cache may be outdated.
func List[T reflector.Object](f *Fleet, kind schema.GroupVersionKind, namespace string) ([]T, error) {
	from, problem := informerOf[T](f, kind, namespace)
	if from == nil {
		return nil, problem
	}
	all := from.Cache().All()
	if namespace != "" {
		all = from.Cache().Namespace(namespace)
	}
	var objects []T
	for _, object := range all {
		objects = append(objects, object)
	}
	return objects, problem
}

// informerOf returns an informer that has all objects of a kind in a namespace, and why its cache may be
// outdated. It is nil if there is none. The problem is that of the cache before the read.
func informerOf[T reflector.Object](f *Fleet, kind schema.GroupVersionKind, namespace string) (from *informer.Informer[T], problem error) {
	for _, m := range f.holders(identity{kind: kind, form: reflect.TypeFor[T](), namespace: namespace}) {
		one := m.informer.(*informer.Informer[T])
		err := errors.Join(m.failure(), one.CacheReady(ours.Only{}))
		if err == nil {
			return one, nil
		}
		if from == nil {
			from, problem = one, err
		}
	}
	if from == nil {
		return nil, fmt.Errorf("%s: %w", kind, ErrNotWanted)
	}
	return from, problem
}

// holders returns the members that have all objects of an identity, the preferred one first.
func (f *Fleet) holders(of identity) []*member {
	var all []*member
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, m := range f.members {
		if id.form != of.form || id.kind.GroupKind() != of.kind.GroupKind() || id.labels+id.fields != "" || id.namespace != "" && id.namespace != of.namespace {
			continue
		}
		if of.kind.Version == "" || id.kind.Version == of.kind.Version || id.kind.Version == "" && m.lastVersion() == of.kind.Version {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *member) int {
		return cmp.Or(
			strings.Compare(a.identity.namespace, b.identity.namespace),
			cmp.Compare(rank(a, of), rank(b, of)),
			version.CompareKubeAwareVersionStrings(b.identity.kind.Version, a.identity.kind.Version),
		)
	})
	return all
}

// rank is 0 for a member of the very kind that a reader asks for, and otherwise 1.
func rank(m *member, of identity) int {
	if m.identity.kind == of.kind {
		return 0
	}
	return 1
}
