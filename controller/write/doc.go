// Package write has the writes of a reconcile function that stand on a client: patches with only the
// changed members, finalizers, owner references, safe deletions. The client is a [client.Resource],
// whose own methods create, update, patch, apply and delete, or a generated typed client. Each call
// reports its write to the reconciler.
//
// # Usage
//
// A Resource for all namespaces writes each object in the object's own namespace:
//
//	deployments, err := client.For[*appsv1.Deployment](config)
//	...
//	held, _ := cache.Get(key)
//	deployment, err := write.CreateOrUpdate(ctx, deployments, held, key, func(d *appsv1.Deployment) error {
//		d.Spec.Replicas = &replicas
//		return write.Own(foo, fooKind, d)
//	})
//
// The status is a separate patch. Its conditions are those of apimachinery:
//
//	want := write.Copy(foo) // the cache and all its readers share the one that is held
//	meta.SetStatusCondition(&want.Status.Conditions, metav1.Condition{...})
//	foo, err := write.Status(ctx, foos, foo, want)
//
// An object may represent something outside of the cluster:
//
//	foo, alive, err := write.Finalize(ctx, foos, foo, "example.com/bucket",
//		func(ctx context.Context, foo *Foo) error { return buckets.Delete(ctx, foo.UID) })
//	if err != nil || !alive {
//		return reconcile.Result{}, err
//	}
//	... // from here on the bucket may be made
//
// # Guarantees
//
//   - write-W1: A write without a change sends no request: the package first compares the held
//     object with the wanted one.
//   - write-W2: A patch applies to one state of one object. The server refuses it with a conflict
//     if the object was written since, or if another object has its name. So no write of another
//     client is lost, lists included. Reconcile the key again after a conflict.
//   - write-W3: Each write is reported to the reconciler, as by reconcile.RecordWrite and
//     reconcile.RecordDelete: the next call for the key sees it. The methods of a Resource report
//     by themselves, except for its Delete, which does not know the object.
//   - write-W4: [Finalize] returns an object as alive only after the server has stored the
//     finalizer. It removes the finalizer only after the cleanup has succeeded. A cleanup that
//     succeeded may be called again, since the process can end in between. If the held object has
//     the finalizer already, Finalize sends no request, and alive means alive in the cache: a cache
//     that is behind may show an object that is gone, whose cleanup is over. reconcile-R10 bounds
//     that at the start of a term. An effect that must never outlive its object needs a request
//     immediately before it, which fails if the object is gone: a Get whose answer has the same UID,
//     or a write with the object's UID and version.
//   - write-W5: [Own] and [Adopt] take no object away from another controller.
//   - write-W6: [Delete] deletes only the held object, and no other object with its name. The garbage
//     collector then deletes the object's dependents, unless the caller chooses the policy Orphan.
//   - write-W7: [Patch], [Status], [CreateOrUpdate] and [Finalize] change only the members that
//     differ between held and want, also in the items of lists. An item of held and one of want are
//     the same item if they have the same key. The key is the type's patchMergeKey, or else the first
//     of name, type, key and uid for which all items have distinct values. Without a key, two items
//     are the same if the struct shows them as equal. The same item keeps the members that the struct
//     does not name; other items are inserted or removed whole, and the list gets the order of want.
//     Members that the struct does not name never move to another item. If held and want do not say
//     which item is which, and the server's item has such members, the change is refused with
//     [ErrAmbiguous]. A client other than a Resource cannot see them. It is refused also if the server
//     prints a value in another form than the struct, such as the Duration 60s.
//   - write-W8: Reapply of a [client.Resource] sends nothing if the last one to this object was equal
//     and held is the state that the server answered.
//
// Lists of scalars are replaced as a whole. If an informer's transform changed a list, its change is
// refused with [ErrTransformed]. Labels, annotations and other maps of Kubernetes' own types keep the entries
// that a transform left out: of one that becomes empty or nil, only the entries go that held shows. A map of a
// custom resource then goes as a whole. managedFields are never compared or sent. Apply is outside of write-W7:
// it states a whole intent, and replaces an atomic list.
//
// # Concurrency
//
// Every function may be called from any goroutine, as long as no goroutine changes the objects that
// are passed.
//
// # Errors
//
// Errors name the key, wrap the error of the server, and have at most 1 KiB. apierrors.IsConflict and
// similar functions recognize wrapped errors. An object of another namespace than that of the client
// is a [client.ErrOtherObject]. [*OwnedError] names the owner of an object. [ErrNoVersion], [ErrSame],
// [ErrNotStatus], [ErrDeleting] and [ErrOtherNamespace] are mistakes of the caller. [ErrAmbiguous],
// [ErrTransformed] and [ErrNullDropped] name the path of a change that the struct, the cache or the
// server does not allow. If the server cannot apply a change of lists, the function reads the object to
// learn why: without the permission to get it, the error is that of the read. A redirect to another server is an [answer.RedirectError].
//
// # Code
//
// patch.go sends a difference, difference.go computes it, and shape.go knows which members a type
// shows. If lists change, operations.go matches their items and plans a JSON patch. If the server cannot
// apply that patch, review in patch.go reads the object and decides.
package write
