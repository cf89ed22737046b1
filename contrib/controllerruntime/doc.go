// Package controllerruntime puts the informers of this library under a controller-runtime manager.
// It takes one line:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: controllerruntime.NewCache})
//
// Client, controllers, sources and tests of the operator stay as they are. Objects are decoded from
// the server's bytes into the types of the scheme, and equal parts of them are kept once.
//
// [clientgo.NewSharedIndexInformer] changes less: it replaces only the informers of a cache, and
// leaves requests and decoding to controller-runtime. It is a value for cache.Options.NewInformer.
//
// # What is supported
//
// ByObject, namespaces, selectors, transforms, SyncPeriod, UnsafeDisableDeepCopy and
// ReaderFailOnMissingInformer work as in controller-runtime. So do field indexes, unstructured
// objects, metadata only and RemoveInformer. controller-runtime's own specs of its cache pass with
// both functions.
//
// docs/controller-runtime-caches.md lists what differs. Compact and persisted stores are not supported.
//
// # By reference
//
// [Options] can cache a kind by reference: see [Reference]. The cache then watches the metadata of
// all objects, and holds whole only the owned objects and the most recently used others. Get of
// another object is a request, and fails as a request does, for example if RBAC allows list and
// watch but not get.
//
//   - cr-R1: Get returns an object that is at least as new as the metadata in the cache, and never
//     an older state than an earlier Get of it returned. Concurrent callers share one request.
//   - cr-R2: A handler gets the states of each object in their order, and the last one in the end.
//     It gets a deletion only if the object was deleted. A change of the labels from owned to not
//     owned, or back, or from one selector to another is an update, and so is what follows when a
//     selector is added or removed.
//   - cr-R3: A List returns only owned objects, in a state that handlers got or are about to get.
//     Its labels must imply a selector of the owned objects; otherwise it returns [ErrNotOwned].
//
// Handlers, sources and predicates get owned objects whole. They get any other object with only its
// metadata: read the whole object by Get, and never write the partial object back. The transform
// runs for partial and for requested objects, too. Field indexes have only the owned objects.
// PartialObjectMetadata of the kind has an informer of its own, as usual.
// docs/controller-runtime-caches.md says what is not supported.
//
// # Reads
//
// With [NewCache], Get and List of Go types read the store of the informer, without a lookup of the
// kind. They copy an object into the caller's by its DeepCopyInto, or by its DeepCopyObject if it
// has no such method. Reads of unstructured objects, of metadata, and of kinds with namespaces in
// the options (with DefaultNamespaces, all kinds) are those of controller-runtime.
//
// # Metrics
//
// Each cache of [NewCache] adds metrics of its kinds to controller-runtime's registry, which a
// manager serves. Their labels are group, version, kind, and form: typed, unstructured, metadata or
// reference. Caches and namespaces of a kind share a series: sizes are sums, lags are the longest.
// A series exists as long as an informer of the kind runs. If a kind is cached by reference,
// requested objects count only in kubereflector_kind_bytes, and only if MaxBytes is set.
//
//	kubereflector_kind_objects              objects in the caches
//	kubereflector_kind_bytes                estimated memory of the objects, as if objects shared nothing
//	kubereflector_kind_cache_lag_seconds    how long a cache has had no watch; 0 while it has one
//	kubereflector_kind_handler_lag_seconds  age of the oldest event that a handler has not handled
//
// The package measures only while it is scraped. A scrape computes the sizes of at most 500 objects
// of each informer, which takes some ten milliseconds for each, and takes the sizes of other objects
// from earlier scrapes, or from the average.
//
// # Shared parts
//
// With [NewCache], objects share equal parts, such as labels. Get and List return copies, so a
// reader does not notice. With UnsafeDisableDeepCopy, and in event handlers and predicates, objects
// belong to the cache, as they do in controller-runtime: copy an object before you change it. A
// transform gets a copy of its own; what it does not change is shared all the same.
package controllerruntime
