// Package leader lets one of several processes work at a time: the process that holds a Lease. It
// runs a member, such as a reconcile.Reconciler, inside client-go's leader election.
//
// # Usage
//
//	lock := &resourcelock.LeaseLock{
//		LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "foos"},
//		Client:     clientset.CoordinationV1(),
//		LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
//	}
//	m := manager.New(nil, manager.WithElection(lock))
//	m.Add(foos) // every process keeps its caches warm
//	m.Add(deployments)
//	m.AddLeaderElected(reconciler)
//	err := m.Run(ctx)
//
// Without a manager, call leader.New(lock, reconciler).Run(ctx), and end the informers only when it has
// returned: the reconciler still waits for their caches after ctx has ended.
//
// # Guarantees
//
//   - leader-L1: The led member runs only while the process holds the lease, and not twice in one
//     process.
//   - leader-L2: When ctx ends, the led member ends first, in its own time, while the leader renews
//     the lease. Then the leader releases the lease. A candidate takes it at its next attempt,
//     which is at most 2.2 times RetryPeriod later.
//   - leader-L3: When the leader cannot renew the lease, it cancels the context of its work with
//     the cause controller.ErrStopNow. It does so RetryPeriod + RenewDeadline after it sent the
//     last successful renewal: with the default times, three seconds before the lease expires. This
//     also holds during the shutdown of leader-L2. The work must return within the remaining time.
//     A reconciler or a controller does if its function honours its context. If the work goes on, the
//     elector logs its name once, and [Elector.Alive] fails a lease duration later.
//   - leader-L4: The process does not release a lease that it has lost, because others count on its whole
//     duration. It becomes a candidate again, and runs the led member again when it gets the lease. Only if
//     ctx has ended does it release what no other process has taken, since its work has ended by then.
//   - leader-L5: A lease that was deleted, or written by another process or by hand, never makes
//     two leaders. The leader watches its lease. When the watch shows that the lease is gone, names
//     another holder or has another term, the leader reads the lease at once. If the lease is lost,
//     the term ends as in leader-L3. Without a watch, the leader sees the change at its next
//     renewal, so after RetryPeriod and one request. A leader that is cut off ends by leader-L3. A
//     candidate leads no earlier than a lease duration after it saw the change: it creates a
//     missing lease without a holder, and waits for it as for a lease of an unknown holder.
//   - leader-L6: [CheckHeld] returns an error from the moment at which another process may lead, also
//     in a process that was stopped and resumed. The times of day of two processes may differ. What
//     a lease cannot promise is below.
//   - leader-L7: A candidate logs, once for each reason, why it does not lead, with the lease and its
//     next try: the process that holds the lease, the former leader for which it waits, or the
//     request that fails. Each of its requests fails if it has no answer within RenewDeadline.
//
// A candidate cannot detect two manual edits. It treats a one-second lease without a holder as
// released, and an exact copy of a lease that it saw as that lease.
//
// # Times without a leader
//
// A candidate waits for a lease duration, 15 seconds by default, in three cases (leader-L5): at the
// first start in a new cluster, after the deletion of the lease, and if the lease still names the
// candidate itself, from an earlier term. WithTimes can shorten that. Taking a missing lease at once
// is not safe, because a candidate cannot tell a new cluster from a lease that was deleted while its
// leader is cut off from the server. That leader works until leader-L3 ends it, and the server
// remembers no deleted object.
//
// The time of leader-L3 counts from the moment at which the leader sends a renewal, because the server
// may write the lease right then. That has a price: a renewal must be answered within half of
// RenewDeadline, 5 seconds by default, or the leader loses its lease and becomes a candidate again.
// client-go counts from the answer and keeps such a lease, although another process may lead by then.
// On a network that slow, pass longer times to WithTimes.
//
// Every process needs an identity that no other process has. The name of a host is not enough.
//
// The caches of a process that takes over may be behind what the leader before did. Reconcilers
// therefore catch up at the beginning of a term: see reconcile-R10. A member of another kind has to
// call [informer.Informer.CatchUp] itself.
//
// # Requests and permissions
//
// A candidate reads the lease every RetryPeriod. A leader updates it every RetryPeriod, and has one
// watch of this one object: the server sends it one event of less than a kilobyte for each update.
// The server ends the watch after ten minutes, and the leader opens another one. If a watch fails,
// the leader logs that once, and retries with back-off up to a minute.
//
// The elector needs the verbs get, create and update on leases, and watch for leader-L5 at once. A
// role may name the lease by resourceNames, except for create. Only a [resourcelock.LeaseLock]
// itself is watched: an elector cannot watch a lock of another type.
//
// # What a lease cannot promise
//
// A lease says when a process has to stop writing. It cannot stop a write.
//
//   - A process that is stopped (SIGSTOP, a debugger, a container that gets no CPU time) for longer
//     than its lease continues where it was. Another process leads by then. The timers that end the
//     context run some milliseconds after the first lines of code. [CheckHeld] compares the clocks
//     itself, and so returns an error at once.
//   - While a machine or a virtual machine is suspended, the monotonic clock stands still, and with
//     it every timer of Go. After it resumes, the context may stay alive for up to RetryPeriod and
//     RenewDeadline. CheckHeld also compares the wall clock, and returns an error once the operating
//     system has corrected that clock. Until then it returns nil.
//   - Only CheckHeld uses the wall clock. If the wall clock is set forward, CheckHeld returns errors until
//     the next renewal. The time of day may differ between processes. The speeds of their clocks
//     may differ by the rest of the lease after the led member has ended, so by less than three
//     seconds in 15. Kubernetes' own controllers rely on the same.
//   - A write may reach the server at any time after CheckHeld. Only the server makes it safe, if it
//     refuses a late write: by a resource version that the write must match, by a name that exists
//     already, or by a fencing token that the written object keeps.
//
// # Concurrency
//
// All methods may be called from any goroutine, but at most one Run at a time.
//
// # Errors
//
// Run returns the error of the led member. If the lease was lost, the error goes to the logger,
// with the reason. CheckHeld returns [ErrNotLeading], with the reason.
//
// # Code
//
// Read Elector.Run in leader.go. lock.go decides when the lease is certainly held, and whether a candidate
// may take it, and watches it, so that a term ends early. waiting.go logs why this process does not lead.
package leader
