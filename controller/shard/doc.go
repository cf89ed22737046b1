// Package shard lets several processes share some work: it is cut into shards, and each is
// held by one process at a time, by Leases. They share evenly, few shards move when a
// process comes or goes, and whoever takes a shard begins when the other one has ended.
//
// # Usage
//
//	group := shard.Group{Namespace: "default", Name: "foos", Shards: 64}
//	member, err := shard.New(clientset.CoordinationV1(), group, hostname,
//		shard.Working(func(ctx context.Context, s shard.Shard) (shard.Work, error) {
//			foos := informer.New(...) // of what is in part s.Index of s.Of
//			return shard.Work{Caches: foos, Led: controller.NewReconciler("foos", foos, reconcile)}, nil
//		}))
//	err = member.Run(ctx) // or manager.AddLed(member)
//
// A reconcile function learns its shard by [From], and asks [Valid] before a write that
// must not be made twice.
//
// # How it works
//
// Each process that takes part has a lease, and renews it; a process that lost it comes
// back with another one, under a new name. Each shard has a lease as well, that names the
// lease of its holder. It is written when the shard is taken and when it is given back, and
// never renewed: whether the holder lives, its own lease says. So n shards and m members
// cost m renewals in a period, and not n, and a member that fails loses all its shards by
// one write.
//
// All members see all leases by one watch, and so the same history of them. From it each
// computes who is to have which shard, without a leader: everybody keeps what it holds up
// to its share, and who has room gets the rest, by a hash of its name and the shard. What
// each holds now is an input: a pure function of the members, such as rendezvous hashing,
// has to choose between even shares and few moves, and this has both. What it computes is a
// wish: whether a shard is taken is decided by the server, which takes only a write of the
// version that was seen.
//
// A member that is not heard of for as long as its lease lasts is ended by the others, by
// a write into its lease, of the version that they saw. If it had renewed it after all,
// that fails, however old what they see is; if not, none of its renewals succeeds any more.
//
// # Guarantees
//
//   - P1. A shard is worked by one member at a time: its [Hold] has returned before
//     another one begins. What has to be so for that is below.
//   - P2. A member that cannot renew its lease tells its work to end at once, by
//     controller.WithHalt, when the deadline has passed since the request was sent by which
//     it was last renewed: before anybody else may take its shards. A lease that is lost
//     never comes back, whatever still arrives at the server: the member joins as another
//     one, when all its work has ended.
//   - P3. A shard that is to go to another member is given back when its Hold has returned.
//     One that does not return in time is reported, in the log and by [Member.State] and
//     [Member.Ready], told to end at once, and kept until it does.
//   - P4. When nothing happens any more all shards are held, and each member has as many as
//     another or one more. Nothing moves then.
//   - P5. When a member comes, shards move to it and nowhere else; when one goes, its shards
//     move and no others.
//   - P6. When ctx ends, the member says so to the others, and then gives back each shard as
//     soon as its work has ended: another member takes it at once. If a process is killed,
//     its shards are taken when its lease is over: that is what a lease lasts after the last
//     renewal that others saw.
//   - P7. Members that know of different numbers of shards never work at the same time.
//     Those who joined first work, the others wait, and are ready.
//   - P8. Run returns after all its goroutines, and may be called again.
//
// What P1 needs:
//
//   - The work ends when it is told to end at once, in the time between deadline and lease:
//     five seconds by default. A reconciler or a controller does if its function heeds its
//     context. Clocks may differ in speed by what is left of that: if the work ends within
//     3.5 seconds, by some 10 %. Nobody's time of day counts.
//   - A process that is stopped for longer than its lease (SIGSTOP, a machine that swaps) and
//     goes on afterwards knows nothing of it at first: what runs then may still do
//     something, until the timers have told it to end. [Valid] looks at the clock, and so
//     knows at once. What is on the way to the server already nobody can call back: it
//     needs a resource version, or a name, by which the server refuses it. The term of a
//     [Shard] grows, and can be written into objects to tell. A clock that stands still
//     meanwhile, as where a virtual machine is suspended, shows nothing.
//   - Nobody restores an old state of the server while members run, nor changes or deletes
//     the lease of a shard by hand: who held it is told to end at once, but nobody waits.
//
// A member whose lease was deleted by hand joins anew; others take its shards when the lease
// would have been over. The members delete leases that are not needed.
//
// Members honour a lease that no member wrote for at most [MaxLeaseDuration]. Examples are a
// duration of years, an unknown holder and an exhausted transition counter. Until then its
// shards may have no worker. If the lease names another number of shards, this affects all
// shards. [State] lists the lease in Foreign, and [Member.Ready] returns [ErrForeignLease].
//
// # Concurrency
//
// All methods may be called from any goroutine, but at most one Run at a time. A Hold is
// called in a goroutine of its own.
//
// # Errors
//
// [New] refuses what cannot work. Run returns what a Hold returned although its shard was
// held; the rest is tried again, logged, and in [State]. What a panic in a Hold does, says
// [Hold].
package shard
