// Package scoped makes an informer of several namespaces, clusters or shards in one cache. Each has a
// reflector of its own.
//
// # Usage
//
//	scopes := scoped.New(store.ObjectKey[*corev1.Pod])
//	err := scoped.Add(scopes, store.Scope{Cluster: "west"}, west.CoreV1().Pods(""))
//	pods := scopes.Informer()
//	pods.Handle(...)
//	err = pods.Run(ctx) // until ctx ends
//
// [Add] and [Scopes.Drop] change the scopes before or while the informer runs. Without a scope, the
// informer watches nothing and is not synced.
//
// The guarantees are those of package informer: informer-I10 is about scopes.
//
// # Concurrency
//
// Every function and method may be called from any goroutine, except that error handlers of a
// reflector must call neither Add nor Drop. Handlers of events may call both.
//
// # Errors
//
// A scope that overlaps another one is a [store.ErrOutOfScope], a scope to drop that does not exist
// an [ErrNoScope]. A final failure of one reflector ends the Run of the informer for all. Its error
// names the scope.
package scoped
