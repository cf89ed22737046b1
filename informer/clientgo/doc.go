// Package clientgo connects informers of this module with code that is written for client-go's
// tools/cache. A program can therefore move over one informer at a time.
//
// # Usage
//
// [NewSharedIndexInformer], [NewInformer] and [NewIndexerInformer] have the arguments of the
// functions with these names in package cache. A program changes the package name, and uses an
// informer of this module. The compiler builds one informer for all kinds, which keeps programs
// small. A program with a store of its own does the same with [NewReflectorWithOptions].
//
// [NewTyped] makes a typed informer of a client, for code that wants a cache.SharedIndexInformer:
//
//	pods := clientgo.NewTyped(clientset.CoreV1().Pods(""))
//	lister := listers.NewPodLister(pods.GetIndexer())
//	pods.AddEventHandler(cache.ResourceEventHandlerFuncs{...})
//	go pods.RunWithContext(ctx)
//	cache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
//
// A typed informer can replace a generated informer in an informer factory. Register it there
// before other code requests the informer of that kind:
//
//	factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return clientgo.NewTyped(client.CoreV1().Pods(""), clientgo.WithResync(resync))
//	})
//
// [SharedIndexInformer.Informer] returns the typed informer behind it, for code that has already
// moved. [AsSharedIndexInformer] wraps an existing informer, such as one with a transform.
// [AsIndexer] wraps a store.Cache.
//
// In the other direction, [FromSharedInformer] makes an informer of this module from an informer of
// client-go that the program already runs. The program gets a typed cache and typed subscribers
// without a second watch. [NewFeed] fills any store.Store from such an informer.
//
// docs/from-client-go.md shows how a program moves over.
//
// The type any appears only in methods of client-go's interfaces, which have no type parameters.
//
// # Guarantees
//
// A SharedIndexInformer gives these guarantees in addition to those of package informer:
//
//   - clientgo-C1: A handler gets every change that the cache shows after the handler was added, as
//     in client-go. The changes of one object keep their order. [WithHandlers] can trade this for
//     bounded memory.
//   - clientgo-C2: A deletion whose last state is not known is a cache.DeletedFinalStateUnknown, by
//     value, with an object in it.
//   - clientgo-C3: HasSynced of the informer means that the first list has filled the cache.
//     HasSynced of a registration means the same, and that its handler got every object of that list,
//     or every object that the cache held when the handler was added. A panic of the handler does not
//     delay it.
//   - clientgo-C4: After RemoveEventHandler no call begins, except for an event that is being
//     handed over at that moment. cache.ShutDownEventHandler returns when the last call has ended.
//   - clientgo-C5: Run returns after the last call of a handler.
//   - clientgo-C6: A write to the cache beside the reflector, where it is allowed, sends no event and
//     moves no version. The next event or list of the reflector overrides it.
//
// # What is different
//
// The guarantees of package informer replace those of client-go: docs/from-client-go.md lists what code may
// notice.
//
// Tests write to the cache of an informer. Before Run any code may, and the first list replaces these
// objects. After the start only the reflector writes, because until the next list nothing would correct a
// write of an object that the server does not have. So the write returns [ErrReadOnly], and the first one is reported
// with its caller. Two cases are exceptions: the client is a test double, such as a fake clientset of
// client-go, or the program asked for it by [WithLocalWrites].
//
// These are test doubles: the types of a package named fake; clients that declare that they do not
// support watch-lists, as client-go's fake clientsets do, also through
// cache.ToListWatcherWithWatchListSemantics; FakeControllerSource; and clients that answer a watch-list
// with a watch of client-go's object tracker. The last ones are recognized by the first request, so not
// where watch-lists are turned off: pass [WithLocalWrites] there.
//
// An object without a name has the key of cache.MetaNamespaceKeyFunc, because fake clientsets store an
// object that has only a generateName. Unsupported calls return an error: [ErrStarted] and [ErrStopped]
// for calls that come too late, and an [*UnsupportedError] for SetTransform and SetWatchErrorHandler of an
// informer that was made elsewhere. A transform must not change the key. If an index function returns an
// error, the cache rejects the object.
//
// # Concurrency
//
// Every function and method may be called from any goroutine. Nothing starts before Run. Run works
// only once.
//
// # Code
//
// sharedinformer.go is an informer of ours with client-go's interface; handlers.go has its event handlers,
// transform and metrics, indexer.go its cache, and untyped.go the informers of a ListerWatcher. into.go writes
// to a store of client-go. feed.go is the other direction: it fills a store from an informer of client-go.
package clientgo
