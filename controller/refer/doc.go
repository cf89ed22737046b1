// Package refer has reconcilers for objects that refer to objects of any kind, such as a bundle that names
// what belongs to it, or a policy that selects what it is about. The function reads what its object refers
// to by [Get] and [List], and the key is reconciled again when one of these objects changes. So the program
// has no mapping from them back to its own objects, and need not know their kinds when it is compiled.
//
// # Usage
//
//	kinds, err := fleet.New(config)
//	bundles := informer.New(...)
//	r := refer.New("bundles", bundles, kinds,
//		func(ctx context.Context, key store.Key, bundle *Bundle) (reconcile.Result, error) {
//			if bundle == nil {
//				return reconcile.Result{}, nil // what it referred to is left
//			}
//			part, found, err := refer.Get[*unstructured.Unstructured](ctx, bundle.Spec.Kind, bundle.Spec.Part)
//			if err != nil {
//				return reconcile.Result{}, err // it is unknown whether the part exists
//			}
//			...
//		})
//	all.Add(kinds) // of package manager; the fleet runs the informers of the kinds
//	all.Add(bundles)
//	all.AddLeaderElected(r) // runs in each process if there is no election
//
// A reference is to an object by its kind and name, whether it exists or not, or to the objects of a kind
// that a label selector chooses. All keys that refer to a kind in the same form, such as Unstructured, share
// one informer of the whole kind, which the fleet shares with other parts of the program.
//
// Get and List return an error as long as the cache does not show what the server has: its first list is not
// complete, the fleet has ended, or the kind is not served ([reflector.ErrNotServed], mostly a
// [*fleet.NotServedError] with the reason). They wait for nothing. The key is reconciled again as soon
// as that changes, so the function may also say so in a status and return nil, which spares the back-off and a
// line of log.
//
// # Guarantees
//
//   - refer-E1: After a call has referred to an object, a call begins after each change of the object: when
//     it is created, changed or deleted, and when it begins or ceases to match a selector. The same holds
//     when its kind begins or ceases to be served, or its first list is complete. A reference is registered
//     before the cache is read, so no change in between is lost. One call may cover many changes.
//   - refer-E2: When a call succeeds, what it did not refer to is left, and an informer that no key needs
//     any more stops as [fleet.WithLag] says. A call that fails leaves nothing, because it may not have come
//     to all of its references.
//   - refer-E3: The references of a key end when its object leaves the primary informer, whether a call
//     follows or not (reconcile-R9, reconcile-R11), and when Run returns. Those of a call with nil last until
//     such a call succeeds, or is not repeated because the object exists after all, and is another process's
//     or does not match. The next Run reconciles every key, and so refers again.
//   - refer-E4: A changed object costs a look-up by its name, and one match for each distinct selector that
//     is in use for its namespace or for all, however many keys refer to other objects. The index holds live
//     references and nothing else.
//
// # Limits
//
// The informers of references are no sources of the reconciler. So Run does not wait for them before its
// first call, and does not let them catch up at the beginning of a term (reconcile-R10). A write of an object
// that is read by Get is not waited for (see [reconcile.RecordWrite]), and [reconcile.IgnoreOwnWrites] does not
// ignore its event, although that event does not shorten a back-off. A
// function that creates what it refers to therefore gives it a name, so that the API server refuses a second
// one. For kinds that are known when the program is compiled, use [reconcile.Watch] or [reconcile.Owns], which
// do all of that.
//
// # Concurrency
//
// Get and List may be called from any goroutine until the function returns. No lock is held while functions
// of the user, or the methods of a selector, run.
//
// # Code
//
// Read reconciler.go, which is about one call, then references.go: the index, and the watch of a kind.
package refer
