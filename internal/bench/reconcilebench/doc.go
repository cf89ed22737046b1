// Package reconcilebench measures reconcilers, beside controller-runtime: the subcommand "reconcile".
//
// Both sides list and watch custom resources from the same server as the subcommand "wire", which is a process of its own, and each side is one as well. The
// resource is a struct, its watch is in JSON, and both have the defaults that they come with: controller-runtime its priority queue and its client that
// reads from the cache and copies. Both have the metrics of client-go's work queues; controller-runtime counts and times reconciles as well.
//
// A reconciliation does nothing, or does no more than read its object. To measure their rate, all keys are let wait before the first goes on, so that
// nothing of the way from the server is in it; CPU time and allocations are for the whole way of an event. At rest, objects change one by one: the time is
// from the read of the connection that brought an event to the reconciliation, so that the server is not in it. Heaps are those after everything was
// reconciled, with all objects.
//
// Other cases restart an operator: a program that keeps a Deployment for each custom resource, with
// CreateOrUpdate of either side. The server is the one of reflectortest, in the process of the
// benchmark, and has all Deployments already. So the operator reads and compares all objects, and
// writes nothing.
package reconcilebench
