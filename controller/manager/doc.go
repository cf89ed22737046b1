// Package manager runs a controller program: its informers, its reconcilers, leader
// election, checks of health, and signals, by one Run.
//
// # Usage
//
//	ctx, stop := manager.Signals(context.Background())
//	defer stop()
//	m := manager.New(config, manager.WithLogger(logger), manager.WithServer(":8081"), manager.WithElection(lock))
//	deployments, err := manager.Informer[*appsv1.Deployment](m, manager.Source{})
//	foos, err := manager.Informer[*Foo](m, manager.Source{Kind: fooKind})
//	manager.Reconcile(m, "foos", foos, reconcile,
//		controller.Watch(deployments, controller.Owner[*appsv1.Deployment](fooKind.GroupKind())))
//	err = m.Run(ctx)
//
// An informer is asked for by the Go type and a [Source]. What was made elsewhere is added
// by [Manager.Add] and [Manager.AddLed]: whatever runs, can be waited for, and says whether
// it is ready.
//
// What client-go logs by klog goes to standard error, unless [WithKlog] or [RouteKlog] has it
// go to a logger: there is one klog in a process.
//
// # Guarantees
//
//   - N1. Whoever asks for an informer of the same type and [Source] gets the same one.
//   - N2. What is led runs only in the process that leads, if there is an election. The
//     others keep their caches warm, and are ready; nobody wants to lead before its caches
//     are synced. Who takes over reads nothing again.
//   - N3. When ctx ends, what is led finishes first, while the informers still run; then
//     the informers end; then the server. So it is when a member fails.
//   - N4. Run returns after all members have ended, with what each of them returned, by its
//     name. Keys that are left when a member has been told to end are logged at Warn and are
//     no error, so a program that got a signal ends with nil. It may be called again if the
//     members may be run again.
//   - N5. /healthz fails if a member has ended by itself, does not answer, or says that it
//     is dead; and if a call of a function given to [Reconcile] has taken longer than
//     [WithStuckAfter] allows. It does not fail because something else is down, such as
//     the API server: to start the process anew would not help.
//   - N6. /readyz fails while the manager does not run or is ending, and while a member is
//     not ready that this process is to run. Both name each member, and say what is wrong.
//   - N7. The first SIGTERM or SIGINT ends the context of [Signals], with its name in the
//     cause, and the second one the process.
//   - N8. Every line that a reconciler logs, or its function by [controller.Logger], has
//     the reconciler's name and the key. Where an event fails in a mapping or a predicate,
//     that is the key of the object that it is of.
//   - N9. Run fails, and names the informer, if a reconciler that was added before watches an
//     informer that is no member and does not run. A reconciler logs a warning if an informer
//     does not run 10 seconds after the reconciler's start.
//
// # Concurrency
//
// Everything may be called from any goroutine, but at most one Run at a time. Members may
// come while it runs.
//
// # Errors
//
// What members return, and why they are not ready or not alive, is a [*MemberError] each.
// [ErrEnded] and [ErrStuck] are reasons; [ErrNoConfig] means that there is no config for an
// informer.
package manager
