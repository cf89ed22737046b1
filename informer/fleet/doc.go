// Package fleet has informers for kinds that come and go. It is for programs that learn at run time
// which kinds they need, such as a policy engine whose rules name kinds: a [Fleet] runs one informer for
// each wanted kind, shares it among all parts of the program that want it, stops it when nobody does,
// and follows the CustomResourceDefinitions of the server.
//
// # Usage
//
//	f, err := fleet.New(config)
//	go f.Run(ctx)
//	...
//	rule := f.NewOwner(ctx, "rule require-labels")
//	widgets, err := fleet.Want[*unstructured.Unstructured](rule, widgetKind, fleet.Selection{})
//	widgets.Handle(...)          // until the rule leaves
//	err = rule.WaitForSync(ctx)  // or why not: not installed, forbidden, failing
//	...
//	rule.Leave()
//
// An [Owner] is whoever wants a kind; it leaves by Leave, or when its context ends. The form of the
// objects is the type parameter of [Want]: Unstructured, metadata alone, or the Go type of the kind.
// [Get] and [List] read any wanted kind by its name.
//
// An owner that finds out what it wants each time that it works, as a reconcile function does for the
// objects that its own object refers to, calls Want for each of them, and then [Owner.Done]: what it did
// not want this time is left.
//
// # When a kind is served
//
// While the server serves a kind, its informer is like any other one. The kind need not exist when it is
// wanted: the informer then waits without requests, and begins when a definition appears. If the server
// ceases to serve the kind, the informer stands still, and what its subscribers hear depends on what is
// known about the objects:
//
//	what happened                                  what subscribers get       what the cache has
//	a version is no longer served, the definition
//	is not established, discovery fails, the
//	server of an aggregated API is down            nothing                    the last objects
//	the definition was deleted                     deletions of all objects   nothing
//	the definition was made again                  deletions, then additions  the new objects
//	another version is served instead              modifications              the objects in that version
//
// In each of these states but the last two, [informer.Informer.Ready] and [Owner.Ready] fail, and
// [informer.Informer.State] and reads by [Get] and [List] have a [*NotServedError] with the [Reason].
// Reconcilers of package reconcile begin no call while their primary kind is not served and its cache has
// objects, because those may be outdated.
//
// # Guarantees
//
//   - fleet-F1: An informer runs exactly as long as an owner wants its kind, and for the time of
//     [WithLag] after that. Owners that want the same kind, version, selection and form share it.
//   - fleet-F2: A subscriber gets a deletion only because the watch of the kind, or a list, showed it, or
//     because the definition under which the object was read was seen deleted, by its UID. A kind that is
//     merely not served deletes nothing.
//   - fleet-F3: No object of a deleted definition survives in a cache, and none of a later definition of
//     the same name is reported as deleted because of the earlier one.
//   - fleet-F4: If the program may watch CustomResourceDefinitions and APIServices, a kind that is not
//     served costs no request and one line of log. Otherwise discovery is asked at most once a minute for
//     all kinds together.
//   - fleet-F5: Without a version, a kind is read in the version that the server prefers when the informer
//     begins, and in that version as long as it is served. With another one, the objects are listed again.
//   - fleet-F6: When an owner leaves, none of its subscriptions gets a further event.
//
// # Permissions
//
// The program needs get, list and watch for the kinds that it wants. Let it list and watch
// customresourcedefinitions (apiextensions.k8s.io) and apiservices (apiregistration.k8s.io) as well. If
// it may not, or no longer, the fleet logs that, asks discovery instead, and tries again every minute.
// Discovery has no UIDs of definitions, so a deleted definition is then a kind that is not served: its
// objects stay in the cache until the kind is served again and listed. Kinds without a definition, such
// as built-in ones and those of aggregated APIs, always come from discovery, which is asked once.
//
// # Concurrency
//
// Every function and method may be called from any goroutine, also from a handler of an informer of the
// fleet, but at most one Run at a time. When Run returns, all its goroutines have ended.
//
// # Code
//
// Read fleet.go, which has owners and what they want, then member.go: Run is the life of one informer.
// definitions.go says how a kind can be read now, and read.go reads caches by kind.
package fleet
