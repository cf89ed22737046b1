// Package fleet has informers for kinds that come and go. It is for programs that learn at run time
// which kinds they need, such as a policy engine whose rules name kinds: a [Fleet] runs one informer for
// each wanted kind, shares it among all parts of the program that want it, stops it when nobody does,
// and follows the CustomResourceDefinitions of the server.
//
// # Usage
//
//	f, err := fleet.New(config, fleet.WithLogger(logger))
//	go f.Run(ctx)
//	...
//	rule := f.NewOwner(ctx, "rule require-labels")
//	widgets, err := fleet.Want[*unstructured.Unstructured](rule, widgetKind, fleet.Selection{})
//	widgets.Handle(...)                    // until the rule leaves
//	err = rule.WaitForSync(withDeadline)   // or why not: not installed, forbidden, failing
//	...
//	rule.Leave()
//
// An [Owner] is a part of the program that wants kinds; it leaves by Leave, or when its context ends. The
// form of the objects is the type parameter of [Want]: Unstructured, metadata alone, or the Go type of a
// version. [Get] and [List] read any wanted kind by its name. A Fleet can be added to a manager.
//
// An owner that finds out what it wants each time that it works calls Want for each kind, and then
// [Owner.EndRound]: what it did not want this time is left. Such an owner lasts as long as the object for
// which it works, and not as long as the context of one call.
//
// A reconciler of package reconcile takes the Informer of a Wanted. It has a subscription of its own, which
// Leave does not close: end the reconciler's Run before its owner leaves. For a reconcile function that finds
// out at run time which kinds its object refers to, package refer has a reconciler that does all of this.
//
// # When a kind is served
//
// While the server serves a kind, its informer is like any other one. The kind need not exist when it is
// wanted: the informer then waits without requests, and begins when a definition appears. If the server
// ceases to serve the kind, the informer stands still, and what its subscribers hear depends on what is
// known about the objects:
//
//	what happened                           subscribers get        the cache has      Ready
//	a version is no longer served, or the
//	definition is no longer established     nothing                the last objects   fails
//	an aggregated API is down or removed    nothing                the last objects   fails
//	discovery fails                         nothing                the last objects   as before
//	the definition is deleted               deletions              nothing            fails
//	the definition is made again            deletions, additions   the new objects    after the list
//	another version is served instead       modifications          that version       after the list
//
// Where Ready fails, [informer.Informer.State] and reads by [Get] and [List] have a [*NotServedError] with
// the [Reason]. A reconciler makes no call for an object in the cache of such a primary kind, because that
// may be outdated. It does call for objects that were deleted with their definition.
//
// # Guarantees
//
//   - fleet-F1: An informer runs as long as an owner wants its kind, and for the time of [WithLag] after
//     that. Owners that want the same kind, version, selection and form share it. If it ends with an
//     error, its owners get that error, and the next Want makes another one.
//   - fleet-F2: A subscriber gets a deletion only because the watch of the kind, or a list, showed it, or
//     because the definition under which the object was read was seen deleted, by its UID. A kind that is
//     merely not served deletes nothing.
//   - fleet-F3: When a definition was deleted, none of its objects stays in a cache, and no object of a later
//     definition of the same name is reported as deleted because of the earlier one. If only a list shows that
//     there is another definition, times of creation tell their objects apart, which have whole seconds: one of
//     the second in which the later definition was made counts as its own.
//   - fleet-F4: If the program may watch CustomResourceDefinitions and APIServices, a kind that is not
//     served costs one line of log, and no request after the discovery that looks for new kinds, at most once
//     a minute for all of them. Otherwise discovery is asked about once a minute for all kinds together, as
//     long as one is missing. Only where the server contradicts its definition ([Refused]), or discovery fails
//     or lags behind an APIService, or behind a definition that was deleted less than half a minute ago, the
//     fleet asks again with a back-off.
//   - fleet-F5: Without a version, a kind is read in the version that the server prefers when the informer
//     begins, and in that version as long as it is served. With another one, the objects are listed again.
//   - fleet-F6: When an owner leaves, its subscriptions are closed: none gets a further event.
//
// # Permissions
//
// The program needs get, list and watch for the kinds that it wants. Let it list and watch
// customresourcedefinitions (apiextensions.k8s.io) and apiservices (apiregistration.k8s.io) as well. If
// it may not, or no longer, the fleet logs that, asks discovery instead, and tries again: soon at first, in the
// end each minute.
// Discovery has no UIDs of definitions, so a deleted definition is then a kind that is not served: its
// objects stay in the cache until the kind is served again and listed. Built-in kinds and those of
// aggregated APIs always come from discovery, which is asked when somebody wants one that it has not
// named, and again when an APIService of their group changes. It needs aggregated discovery: Kubernetes
// 1.30 or later.
//
// Nothing survives the process: after a restart, subscribers get all objects as additions, and no deletions
// of objects that went meanwhile.
//
// # Concurrency
//
// Every function and method may be called from any goroutine, also from a handler of an informer of the
// fleet, but at most one Run at a time. When Run returns, its goroutines have ended, but for the two kinds that
// docs/maintainers/shutdown.md names.
//
// # Code
//
// Read fleet.go, which has owners and what they want, then member.go: Run is the life of one informer.
// definitions.go says how a kind can be read now, discovery.go asks for kinds without a definition, and
// read.go reads caches by kind.
package fleet
