// Package ondemand caches the metadata of all objects of a resource, and whole objects only where a
// program uses them. [Objects] fetches an object at its first use and keeps the most recently used
// objects. It never returns an object that is older than the cached metadata.
//
// # Usage
//
//	metas := informer.NewMetadata[corev1.Secret](metadataClient.Resource(secrets))
//	whole, err := ondemand.New(clientset.CoreV1().Secrets, metas.Cache(), ondemand.WithMaxObjects(200))
//	defer whole.Close()
//	go metas.Run(ctx)
//	...
//	secret, err := whole.Get(ctx, key)
//
// Resources without namespaces have one client for all objects: see [Cluster]. If an informer holds
// some of the objects whole, [Objects.AddOwned] reads them there.
//
// Use it for many large objects if the program reads few of them. An example is a controller that
// needs only the Secrets that Ingresses name. Use an informer instead if the program reads most of
// the objects, or cannot wait for a request.
//
// # Guarantees
//
//   - ondemand-D1: An object that [Objects.Get] returns is at least as new as the metadata in the
//     cache at the time of the call. It is the object that has the name now: if an object was
//     re-created, Get fetches it again.
//   - ondemand-D2: If the metadata or the server does not have an object, Get returns a
//     [*NotFoundError] and does not keep that answer. If the cache of the metadata rejected those of an
//     object and has no earlier ones, each Get asks the server; earlier ones decide as if they were current.
//     A deletion in the metadata drops the whole object at once, but not a later object of the name,
//     which Get has returned already. A change of the metadata drops an object that is now outdated. A
//     list also drops objects that are newer than the list, because they may belong to a history that
//     the server has lost.
//   - ondemand-D3: Callers that want the same object at the same time share one request. When the
//     context of one caller ends, the others continue. When all callers have left, the request
//     ends. If the request answers that the object does not exist, a caller that joined the request
//     after its start asks once more.
//   - ondemand-D4: [Objects] keeps at most [WithMaxObjects] objects and [WithMaxBytes] bytes. It
//     evicts the least recently used objects first.
//   - ondemand-D5: A kept object costs no request as long as its metadata does not change and is
//     not listed again.
//   - ondemand-D6: Objects of the caches of [Objects.AddOwned] cost no request. Reads of an object
//     never go back, although each watch may be behind the others, also while an object moves from one
//     of these caches to another and while a cache is added or removed. They do go back after a restore
//     of the server, and may do so after the scope of the object was dropped from the metadata. For an
//     object that was requested, they may also go back after a later list of the metadata, since such a
//     list may follow a restore.
//   - ondemand-D7: After a later list of the metadata, Get fetches objects again that it fetched
//     before that list. Such a list follows an expired version, a restored server or a broken watch,
//     and then the server may show the other parts of an object differently, although its metadata
//     is the same. With scopes, this concerns the objects of the scope that was listed.
//
// When a definition gets a default or another conversion, the API server ends its watches and
// expires their versions, so that such a list follows. Where only the answers of a conversion
// webhook change, the watch goes on, or is resumed without a list. Then Objects keeps what it has
// until the next list or change, as an informer of client-go does.
//
// # Concurrency
//
// Every function and method may be called from any goroutine. A request runs on its own goroutine,
// which ends when the server has answered or no caller waits for it. No lock is held meanwhile.
//
// # Errors
//
// [*NotFoundError] says that there is no such object, and apierrors.IsNotFound recognizes it.
// [ErrNotSynced] says that the cache of the metadata, or the scope of the object in it, is not filled yet. A [*FetchError] wraps the
// failure of a request, which may be [ErrStale]. [ErrVersions] refuses a kind. If a context ends, the
// error is the cause of the context.
//
// # Code
//
// Read Objects.Get in objects.go, then flight.go, which fetches an object once for all callers, keeps it,
// and drops it when the metadata shows a newer one. owned.go has the objects that other caches hold whole.
package ondemand
