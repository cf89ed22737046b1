// Package clientgo joins informers of this module and code that is written for
// client-go's tools/cache, so that a program can move over one informer at a time.
//
// # Usage
//
// One of ours for code that wants one of client-go's: a [SharedIndexInformer] is a
// cache.SharedIndexInformer.
//
//	pods := clientgo.NewSharedIndexInformer(clientset.CoreV1().Pods(""))
//	lister := listers.NewPodLister(pods.GetIndexer())
//	pods.AddEventHandler(cache.ResourceEventHandlerFuncs{...})
//	go pods.RunWithContext(ctx)
//	cache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
//
// In a factory of informers it takes the place of the generated one for everybody who
// asks the factory, if it is put there first:
//
//	factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return clientgo.NewSharedIndexInformer(client.CoreV1().Pods(""), clientgo.WithResync(resync))
//	})
//
// [SharedIndexInformer.Informer] is the typed informer behind it, for code that has been
// moved already. [AsSharedIndexInformer] shows an informer that exists, such as one that
// stores something else than it watches; [AsIndexer] a store.Cache.
//
// The other way round, [FromSharedInformer] makes one of our informers of one of
// client-go's that a program has anyway: a typed cache and typed subscribers without a
// second watch. [NewFeed] fills any store.Store from it.
//
// docs/from-client-go.md shows a program moving over.
//
// An object is an any where a method is one of client-go's interfaces, which have no type
// parameter, and nowhere else.
//
// # Guarantees
//
// Of a SharedIndexInformer, on top of those of package informer:
//
//   - C1. A handler is told of every change that the cache shows after it was added, as
//     in client-go; changes of one object in their order. [WithHandlers] can trade this for
//     bounded memory.
//   - C2. A deletion whose last state is not known is a cache.DeletedFinalStateUnknown,
//     by value, with an object in it.
//   - C3. HasSynced of the informer means that the cache is filled, that of a
//     registration that its handler was told of what the cache was filled with, or held
//     when the handler was added. A panic cannot hold it up.
//   - C4. After RemoveEventHandler no call begins, but for one whose event is being handed
//     over; cache.ShutDownEventHandler returns when the last one has ended.
//   - C5. Run returns after the last call of a handler.
//
// # What is different
//
// The guarantees of package informer hold, where client-go has others: an object that was
// deleted and created again is a deletion and an addition; a relist calls nobody for what
// did not change; a resync comes exactly to those who asked, each in its own period of at
// least a second; a handler that panics does not end the program, and is called again for
// the same event after a back-off; on stop handlers get what is queued for them.
//
// What there is no way to give returns an error: [ErrReadOnly] for a write to the cache of
// an informer, [ErrStarted] and [ErrStopped] for what comes too late, an
// [*UnsupportedError] for SetTransform and SetWatchErrorHandler of an informer that was
// made elsewhere. A transform must leave the key alone, and the error of an index function
// keeps its object out of the cache.
//
// # Concurrency
//
// Everything may be called from any goroutine. Nothing starts before Run, and Run is for
// once.
package clientgo
