// Package leader lets one of several processes work at a time: the one that holds a
// Lease. It is client-go's leader election around something that runs, such as a
// controller.Reconciler.
//
// # Usage
//
//	lock := &resourcelock.LeaseLock{
//		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "foos"},
//		Client:     clientset.CoordinationV1(),
//		LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
//	}
//	var all informer.Group
//	all.Add(foos) // every process keeps its caches warm
//	all.Add(deployments)
//	go all.Run(ctx)
//	err := leader.New(lock, reconciler).Run(ctx)
//
// # Guarantees
//
//   - L1. What is led runs only while the lease is held, and not twice in one process.
//   - L2. When ctx ends, what is led ends first, in its own time, while the lease is
//     renewed. Then the lease is given up. A candidate takes it at its next attempt, which
//     is at most 2.2 times RetryPeriod later.
//   - L3. When the leader cannot renew the lease, it cancels the context of its work with
//     the cause controller.ErrHalt. It does so RetryPeriod + RenewDeadline after it sent the
//     last successful renewal: with the default times, three seconds before the lease
//     expires. This also holds during the shutdown of L2. The work must return within the
//     remaining time. A reconciler or a controller does if its function honours its context.
//   - L4. The lease is not given up when it was lost. The process is then a candidate
//     again, and what is led runs again when it has the lease.
//   - L5. A lease that was deleted, or written by another process or by hand, never makes
//     two leaders. The leader ends its term as in L3 when it sees that the lease is gone,
//     names another holder or is of another term: at its next renewal, so after RetryPeriod
//     and one request. A leader that is cut off ends by L3. A candidate leads no earlier
//     than a lease duration after it saw the change: it creates a missing lease without a
//     holder, and waits for it as for a lease of an unknown holder.
//
// A candidate cannot detect two manual edits. It treats a one-second lease without a holder as
// released, and an exact copy of a lease that it saw as that lease.
//
// So nothing leads for one lease duration, 15 seconds by default, after the first start in a
// new cluster, after a lease was deleted, and after a process lost its lease and found it
// still in its own name. Shorter times, by WithTimes, shorten that.
//
// All of it needs identities that no two processes have in common. The name of a host is
// not enough.
//
// # What a lease cannot promise
//
// A lease says when a process has to stop writing. It cannot stop a write.
//
//   - A process that is stopped (SIGSTOP, a debugger, a container that gets no CPU time) for
//     longer than its lease goes on where it was: another process leads by then, and the
//     timers that end the context run some milliseconds after the first lines of code.
//     [Valid] compares the clocks itself, and so returns an error at once.
//   - While a machine or a virtual machine is suspended the monotonic clock stands still, and
//     with it every timer of Go: after it resumes, the context may stay alive for up to
//     RetryPeriod and RenewDeadline. Valid compares the wall clock, too, and returns an error
//     once something has set that right. Until then it returns nil.
//   - The wall clock of a process counts for Valid alone: one that is set forward makes it
//     return errors until the next renewal. Processes may differ in their time of day. In
//     speed their clocks may differ by what is left of the lease when what is led has
//     ended, so by less than three seconds in 15. Kubernetes' own controllers rely on the same.
//   - Between Valid and the server a write may be late by any time. Only the server makes it
//     safe, if it refuses a late one: by a resource version that the write must match, by a
//     name that exists already, or by a fencing token that the written object keeps.
//
// # Concurrency
//
// All methods may be called from any goroutine, but at most one Run at a time.
//
// # Errors
//
// Run returns what the thing that is led returned. What it returns when the lease was
// lost goes to the logger, with the reason. Valid returns [ErrNotLeading], with the reason.
package leader
