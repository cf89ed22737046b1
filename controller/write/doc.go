// Package write has what a reconcile function writes with: patches of what changed,
// finalizers, owner references, server-side apply and deletions. All of it is for one typed
// client, be it one that Kubernetes' code generator made or a [Resource] of a struct of
// your own, and all of it tells the reconciler what was written.
//
// # Usage
//
//	deployments := clientset.AppsV1().Deployments(key.Namespace)
//	want := write.Copy(held) // the cache and all its readers share the one that is held
//	want.Spec.Replicas = &replicas
//	deployment, err := write.Patch(ctx, deployments, held, want)
//
// The status is a patch of its own, in which conditions are those of apimachinery:
//
//	meta.SetStatusCondition(&want.Status.Conditions, metav1.Condition{...})
//	foo, err := write.Status(ctx, foos.In(key.Namespace), foo, want)
//
// And an object that stands for something outside of the cluster:
//
//	foo, alive, err := write.Finalize(ctx, foos.In(key.Namespace), foo, "example.com/bucket",
//		func(ctx context.Context, foo *Foo) error { return buckets.Delete(ctx, foo.UID) })
//	if err != nil || !alive {
//		return controller.Result{}, err
//	}
//	... // from here on the bucket may be made
//
// # Guarantees
//
//   - W1. Nothing is asked of the server if nothing is to be changed: what is held and
//     what is wanted are compared first. Where they cannot be, as by [Apply] without what
//     is held, the server is asked, and writes nothing.
//   - W2. A patch is of one state of one object: the server refuses it, as a conflict, if
//     anybody wrote the object since, or if another one has its name. So nothing that
//     others wrote is lost, lists included, and the key is to be reconciled again.
//   - W3. What was written is told to the reconciler, by [controller.Wrote] and
//     [controller.Deleted]: the next call for the key sees it.
//   - W4. [Finalize] returns an object as alive only after the server has stored the
//     finalizer, and takes the finalizer away only after the cleanup has succeeded. It may
//     be that the cleanup succeeds and is called again, since the process can end in
//     between.
//   - W5. [Own] and [Adopt] take no object away from another controller.
//   - W6. [Delete] deletes the object that is held, and no other of its name.
//
// # Concurrency
//
// Everything may be called from any goroutine, as long as nobody changes the objects
// that are passed.
//
// # Errors
//
// Errors of the server are wrapped, with the key, but for those of [Apply], which cannot
// know it: apierrors.IsConflict and its like see them all the same. [*OwnedError] says to
// whom an object belongs. [ErrNoVersion], [ErrSame], [ErrNotStatus], [ErrDeleting]
// and [ErrOtherNamespace] are mistakes of the caller. A redirect to another server is a
// [reflector.RedirectError].
package write
