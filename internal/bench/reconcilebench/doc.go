// Package reconcilebench measures reconcilers, beside controller-runtime: the subcommand "reconcile".
//
// Both sides list and watch custom resources from the server of package apiserver; each side has a
// process of its own. The resource is a struct, its watch is in JSON, and both have their defaults:
// controller-runtime its priority queue, and its client that reads from the cache and copies. Both
// have the metrics of client-go's work queues; controller-runtime counts and times reconciles as
// well.
//
// A reconciliation does nothing, or reads its object. For rates, all keys are queued before the first
// reconciliation, so rates exclude the way from the server. CPU time and allocations of events cover
// the whole way. At rest, objects change one by one: the time is from the read of the connection that
// brought an event to the reconciliation, so the server is not in it. Heaps are after the
// reconciliation of all objects.
//
// Other cases restart an operator: a program that keeps a Deployment for each custom resource, with
// CreateOrUpdate of either side. The server is the one of reflectortest, in the process of the
// benchmark, and has all Deployments already. So the operator reads and compares all objects, and
// writes nothing.
package reconcilebench
