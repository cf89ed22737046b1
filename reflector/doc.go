// Package reflector keeps a store equal to what the Kubernetes API server holds.
//
// A [KubernetesResourceReflector] takes a client and a [store.Store] at
// construction and hides the rest: it lists the resource in pages, replaces the
// content of the store with the list, watches from the list's resource version,
// and puts every change into the store as it is reported. It is the Reflector of
// the blog series "Understanding Kubernetes' tools/cache package", and of
// client-go's tools/cache.
//
// # Usage
//
//	pods := store.New(store.ObjectKey[*corev1.Pod])
//	r := reflector.New(clientset.CoreV1().Pods("default"), pods)
//	err := r.Run(ctx) // until ctx ends
//
// Every typed client that Kubernetes' code generator makes is a [Client] as it
// is. The type of the objects comes from it: a client of Deployments over a store
// of Pods does not compile.
//
// # Guarantees
//
//   - R1. The store hears of changes in the order in which the API server
//     reports them, from one goroutine at a time.
//   - R2. A watch that ends normally is resumed where it was. Only a resource
//     version that the server refuses (410 above all), a failure reported inside a
//     watch, or an object that could not be stored causes a new list.
//   - R3. An object that the store rejects, or that is not a T, is reported. It
//     is fetched again by a new list after a back-off; what the store held under
//     its key stays until then, and everything else goes on.
//   - R4. Failures are retried for ever, unless [WithRetry] says otherwise, with
//     a back-off that grows from 0.8 to 30 seconds and starts anew only after
//     two minutes without a failure.
//   - R5. When ctx ends, Run stops waiting at once, and returns after all that
//     it started has ended.
//
// # Concurrency
//
// Run works on the calling goroutine; at most one Run of a reflector at a time.
// All other methods may be called from any goroutine.
//
// # Errors
//
// What goes wrong while Run runs is an [*Error], which says what was being done
// and with which resource version. It goes to the logger, to the hook given by
// [WithErrorHook] and into [State], and ends Run only if [WithRetry] calls it
// final. Run itself returns [ErrNoClient], [ErrNoStore] or a [*ListTypeError] if
// the reflector was put together wrongly, and [ErrRunning] if it runs already.
package reflector
