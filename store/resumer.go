package store

// Resumer is a [Store] that wants to know when it is in touch with the server: one
// that was filled by an earlier process is stale until then. A reflector calls
// Resumed when the server accepted a watch from the store's resource version, so
// that no list comes. The decorators hand it on.
type Resumer interface{ Resumed() }

// resumed tells a store, if it wants to know.
func resumed[T any](s Store[T]) {
	if r, ok := s.(Resumer); ok {
		r.Resumed()
	}
}
