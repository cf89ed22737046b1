package source

import (
	"path"
	"reflect"

	"k8s.io/client-go/util/watchlist"
)

// CanStream reports whether a client can serve watch-lists. Test doubles over an object tracker
// cannot: they send no closing bookmark. client-go's fake clientsets declare this, but their typed
// clients do not. CanStream recognizes the typed clients by their package name, fake.
func CanStream(client any) bool {
	if IsNil(client) {
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
