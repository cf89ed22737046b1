// Package ondemand has whole objects for those that a program uses, and the metadata of
// all: [Objects] fetches an object when it is first asked for, keeps those that were used
// last, and never hands out one that is older than what a cache of the metadata says.
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
// Resources without namespaces have one client for all: see [Cluster].
//
// It is for many large objects of which few are read, such as the Secrets of a cluster
// whose controller needs those that Ingresses name. Who reads most of them anyway, or
// cannot wait for a request, has them in an informer.
//
// # Guarantees
//
//   - D1. An object that [Objects.Get] returns is at least as new as the cache of the
//     metadata was when Get was called, and of the object that has the name now: one
//     that was re-created is fetched again.
//   - D2. An object that the metadata does not have, or the server, is a
//     [*NotFoundError], and is not kept: a deletion in the metadata drops the whole object
//     at once, and a change drops what it made old. A list drops what is ahead of it as
//     well, which may be of a history that is lost.
//   - D3. Callers who want the same object at the same time share one request. When the
//     context of one of them ends, the others go on; when all have left, the request
//     ends. Who came while it was under way does not believe it that there is no such
//     object, and asks once more.
//   - D4. No more is kept than [WithMaxObjects] and [WithMaxBytes] allow, the least
//     recently used going first.
//   - D5. As long as the metadata does not change, an object that is kept costs no
//     request.
//
// # Concurrency
//
// Everything may be called from any goroutine. A request runs on a goroutine of its own,
// which ends when it is answered or nobody waits for it. No lock is held meanwhile.
//
// # Errors
//
// [*NotFoundError] says that there is no such object, [ErrNotSynced] that nobody knows yet,
// because the cache of the metadata was not filled. A [*FetchError] wraps what went wrong
// in a request, [ErrStale] among it. A context's end is its cause.
package ondemand
