// Package manager runs a whole controller program: its informers, its reconcilers, leader election,
// health checks and signals.
//
// # Usage
//
//	ctx, stop := manager.SignalContext(context.Background())
//	defer stop()
//	m := manager.New(config, manager.WithLogger(slog.Default()),
//		manager.WithServer(":8081"), manager.WithElection(lock))
//	deployments, err := manager.Informer[*appsv1.Deployment](m, manager.Selection{})
//	foos, err := manager.Informer[*Foo](m, manager.Selection{Kind: fooKind})
//	manager.Reconcile(m, "foos", foos, reconcile,
//		reconcile.Owns(deployments, fooKind.GroupKind()))
//	err = m.Run(ctx)
//
// A program requests an informer by its Go type and a [Selection]. [Informer] returns the informer,
// and [For] also a client of the same resource, for writes. [ByReference] caches only the metadata
// of all objects, and the objects that the program reads. [Manager.Add] and
// [Manager.AddLeaderElected] add members that were made elsewhere: anything that runs, can be
// waited for, and reports whether it is ready. A Manager is a member, too. [New] without a config
// makes a manager of such members only.
//
// [WithLogger] takes a *slog.Logger or a *zap.Logger. client-go logs with klog, which writes to
// standard error by default. [WithKlog] or [RouteKlog] sends these lines to a logger. A process has
// only one klog.
//
// # Guarantees
//
//   - manager-N1: All requests for an informer of the same type and [Selection] return the same
//     informer.
//   - manager-N2: With an election, led members run only in the leading process. The other
//     processes keep their caches filled, and are ready. A process becomes a candidate only after
//     its caches are synced. A process that takes over does not read its caches again.
//   - manager-N3: When ctx ends, led members finish first, then the other members, while the
//     informers still run. Then the informers and fleets end, also those of a manager that is a member, and
//     then the server. A led one ends after the other led members, but at once when the lease is lost.
//     The order is the same when a member fails.
//   - manager-N4: Run returns after all members have ended. Its error holds the error of each
//     member, with the member's name. If the manager stopped a member, its remaining keys and
//     Events are logged at Warn and are not an error, so a program that got a signal ends with nil.
//     Run may be called again if the members may run again.
//   - manager-N5: /healthz fails if a member has ended by itself, does not answer, or says that it
//     is dead. It also fails if a call of a function given to [Reconcile] has taken longer than
//     [WithStuckAfter] allows, or if a led member works on after the lease was lost. It does not fail
//     because another system is down, such as the API server: a restart of the process would not help.
//   - manager-N6: /readyz fails while the manager does not run or is ending, and while a member
//     that this process should run is not ready. Both pages name each member and its problem.
//   - manager-N7: The first SIGTERM or SIGINT ends the context of [SignalContext], with the
//     signal's name in the cause. The second one ends the process.
//   - manager-N8: Every line that a reconciler logs, or its function by [reconcile.Logger], has the
//     reconciler's name and the key. If an event fails in a mapping or a predicate, the key is the
//     key of the event's object.
//   - manager-N9: Run fails, and names the informer, if a reconciler that was added before watches
//     an informer that is not a member and does not run, unless there is a led member that may run it,
//     such as a fleet. A reconciler logs a warning if an informer does not run 10 seconds after the
//     reconciler's start.
//   - manager-N10: Run fails before it starts a member if two members have the same name. A member
//     that is added later with a taken name does not start, and makes /readyz fail. The others
//     continue.
//   - manager-N11: Without [WithLogger], warnings and errors go to standard error. A failed call of
//     a reconcile function is one line, with the key, the attempt and the time until the next try.
//
// # Concurrency
//
// Every function and method may be called from any goroutine, but at most one Run at a time.
// Members may be added while it runs.
//
// # Errors
//
// A [*RunnableError] wraps the error of a member, or the reason why a member is not ready or not
// alive. [ErrEnded], [ErrStuck] and [ErrDuplicateName] are such reasons. [ErrNoConfig] means that
// there is no config for an informer.
//
// # Code
//
// manager.go starts and ends the members in order. informers.go makes the shared informers and the
// reconcilers, check.go asks members for their health, and process.go has what a process has once: its
// signals, its HTTP server and klog.
package manager
