package clientgo

import (
	"iter"
	"reflect"
	"strings"

	"github.com/kubereflector/kubereflector/store"
)

// keysOf iterates over the keys that a string may stand for, the likeliest first. "a/b" is a
// namespace and a name, but a key from another source than Kubernetes may be a name with a slash.
// "c|a/b" has a cluster, but names of some resources, such as roles, may contain a bar.
func keysOf(text string) iter.Seq[store.Key] {
	return func(yield func(store.Key) bool) {
		if !eachForm("", text, yield) {
			return
		}
		if cluster, rest, ok := strings.Cut(text, "|"); ok {
			eachForm(cluster, rest, yield)
		}
	}
}

// eachForm yields a namespace and a name if there is a slash, and then a name.
func eachForm(cluster, text string, yield func(store.Key) bool) bool {
	if strings.Contains(text, "/") && !yield(namespaced(cluster, text)) {
		return false
	}
	return yield(store.Key{Cluster: cluster, Name: text})
}

// namespaced returns the key for a text of client-go.
func namespaced(cluster, text string) store.Key {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		namespace, name = "", text
	}
	return store.Key{Cluster: cluster, Namespace: namespace, Name: name}
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }
