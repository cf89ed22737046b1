package reflector

import (
	"path"
	"reflect"

	"k8s.io/client-go/util/watchlist"
)

// canStream reports whether a client can serve watch-lists. Test doubles over an object tracker
// cannot: they send no closing bookmark. client-go's fake clientsets declare this, but their typed
// clients do not. canStream recognizes the typed clients by their package name, fake.
func canStream(client any) bool {
	if isNil(client) {
		return false // Run reports the missing client
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
