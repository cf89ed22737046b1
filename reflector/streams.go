package reflector

import (
	"path"
	"reflect"

	"k8s.io/client-go/util/watchlist"
)

// canStream reports whether a client can ask for watch-lists. Doubles that answer a
// list from an object tracker cannot: they would send no closing bookmark. Those of
// client-go's clientsets say so, but their typed clients do not, and are told by
// where they live.
func canStream(client any) bool {
	if isNil(client) {
		return false // Run will say so
	}
	if watchlist.DoesClientNotSupportWatchListSemantics(client) {
		return false
	}
	t := reflect.TypeOf(client)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return path.Base(t.PkgPath()) != "fake"
}
