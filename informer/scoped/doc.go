// Package scoped makes an informer of several namespaces or clusters in one cache. Each has a
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
// Package informer has the guarantees: informer-I10 is about scopes.
//
// # Concurrency
//
// Every function and method may be called from any goroutine, except that error handlers of a
// reflector must call neither Add nor Drop. Handlers of events may call both.
//
// # Errors
//
// Add returns a [store.ErrOutOfScope] if the scope overlaps another one. Drop returns an [ErrNoScope]
// if there is no such scope. If one reflector fails for good, the Run of the informer ends, with an
// error that names the scope.
package scoped
