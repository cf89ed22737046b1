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
//     renewed. Then the lease is given up, and another process has it at once.
//   - L3. When the lease cannot be renewed, what is led is told to end at once, by
//     controller.WithHalt and so with the cause controller.ErrHalt, and before anybody
//     else may take the lease: when RetryPeriod and RenewDeadline are over since the
//     request was sent by which it was last renewed, which is three seconds before the
//     lease ends unless [WithTimes] says otherwise. That holds while it finishes for L2,
//     too. It is the part of what is led to return within that time: a reconciler or a
//     controller does if its function heeds its context.
//   - L4. The lease is not given up when it was lost. The process is then a candidate
//     again, and what is led runs again when it has the lease.
//
// All of it needs identities that no two processes have in common: a process takes a
// lease with its own identity for its own. The name of a host is not enough.
//
// What holds of clocks: nobody's time of day counts, but a process whose clock goes much
// slower than that of another may lead for too long. Kubernetes' own controllers rely on
// the same.
//
// # Concurrency
//
// All methods may be called from any goroutine, but at most one Run at a time.
//
// # Errors
//
// Run returns what the thing that is led returned. What it returns when the lease was
// lost goes to the logger.
package leader
