// Package shard lets several processes share some work. It cuts the work into shards, and a Lease
// gives each shard to one process at a time. Each process gets an equal share, and few shards move
// when a process comes or goes. The new holder of a shard begins after the old holder has ended.
//
// # Usage
//
//	group := shard.Group{Namespace: "default", Name: "foos", Shards: 64}
//	member, err := shard.New(clientset.CoordinationV1(), group, hostname,
//		shard.Working(func(ctx context.Context, s shard.Shard) (shard.Work, error) {
//			foos := informer.New(...) // of the objects in part s.Index of s.Of
//			return shard.Work{Caches: foos, Led: reconcile.New("foos", foos, reconcile)}, nil
//		}))
//	err = member.Run(ctx) // or manager.AddLeaderElected(member)
//
// A reconcile function gets its shard from [FromContext], and calls [CheckHeld] before a write that
// must not happen twice.
//
// # How it works
//
// Each member has a lease and renews it. A member that lost its lease comes back with another
// lease, under a new name. Each shard has a lease as well, which names the lease of its holder.
// Members write a shard's lease when they take the shard and when they give it back, and never
// renew it: the holder's own lease shows whether the holder is alive. So n shards and m members
// cost m renewals in a period instead of n. One write takes all shards from a failed member.
//
// All members watch all leases, so they see the same history. Each member computes from it which
// member should have which shard. There is no leader. Each member keeps its shards up to its equal
// share. The other shards go to members with room, chosen by a hash of member name and shard. The
// current holders are an input of this computation. Rendezvous hashing, as a pure function of the
// members, must choose between equal shares and few moves; this algorithm has both. Its result is
// only a plan. The API server decides: it accepts a write only for the lease version that the
// member saw.
//
// If other members see no renewal for the duration of a lease, they end that member. They do so
// with a write to its lease, for the version that they saw. If the member renewed its lease after
// all, that write fails, however old the view of the others is. Otherwise, all later renewals of
// the member fail.
//
// # Guarantees
//
//   - shard-P1: One member works on a shard at a time: its [RunFunc] has returned before the next
//     member begins. The conditions are below.
//   - shard-P2: A member that cannot renew its lease tells its work to end at once, by
//     controller.HardStopContext. It does so when the deadline has passed since it sent its last
//     successful renewal, before any other member may take its shards. A lost lease never becomes
//     valid again, even if a late renewal reaches the server. When all its work has ended, the
//     member joins under a new name. It reports work that goes on when the lease expires, as in shard-P3.
//   - shard-P3: A member gives a shard back for another member after its RunFunc has returned. If
//     the RunFunc does not return in time, the member reports it in the log, in [Member.State] and
//     in [Member.Ready]. It tells the RunFunc to end at once, and keeps the shard until the RunFunc
//     returns.
//   - shard-P4: When members no longer come or go, members hold all shards, and the shares of two
//     members differ by one at most. No shard moves then.
//   - shard-P5: When a member comes, shards move only to that member. When a member goes, only its
//     shards move.
//   - shard-P6: When ctx ends, the member announces it, and then gives back each shard as soon as
//     the work of that shard has ended. Another member takes the shard at once. If a process is
//     killed, others take its shards one lease duration after the last renewal that they saw.
//   - shard-P7: Members with different numbers of shards never work at the same time. The members
//     that joined first work. The others wait, and say so in the log and in State. They are ready,
//     so that a rollout with another number goes on.
//   - shard-P8: Run returns after all its goroutines, and may be called again.
//
// shard-P1 holds under these conditions:
//
//   - The work ends, when told to end at once, in the time between deadline and lease duration:
//     five seconds by default. A reconciler or a controller does so if its function honours its
//     context. The speeds of two clocks may differ by the rest of that time: if the work ends
//     within 3.5 seconds, by about 10 %. The time of day does not matter, except to CheckHeld.
//   - The process does not run on after a pause longer than its lease (SIGSTOP, a machine that
//     swaps or is suspended). After such a pause, its work may still act until its timers, or the next
//     renewal, end it. [CheckHeld] compares the clocks, as that of package leader does, and returns an error
//     at once. A request that is already on its way cannot be recalled: it needs a resource version, or a
//     name, so that the server refuses it. The Generation of a [Shard] grows, and objects can record it.
//   - While members run, the server is not restored to an old state, and the lease of a shard is
//     not changed or deleted by hand. After such an edit the old holder is told to end at once, but
//     the new holder does not wait for it.
//
// A member sends a renewal every two seconds, a request when a member or a shard changes its holder, and at most
// eight at a time. Give it a client with its own limit, or with none (rest.Config.QPS): the renewal waits behind
// all other requests of that client. By client-go's default of 5 requests a second, 256 shards are taken in a minute.
//
// A member whose lease was deleted by hand joins anew. Others take its shards when the lease would
// have expired. The members delete leases that are not needed.
//
// Members honour a lease that no member wrote for at most [MaxLeaseDuration]. Examples are a
// duration of years, an unknown holder and an exhausted transition counter. Until then its shards
// may have no worker. If the lease names another number of shards, this affects all shards. [State]
// lists the lease in Foreign, and [Member.Ready] returns [ErrForeignLease].
//
// # Concurrency
//
// All methods may be called from any goroutine, but at most one Run at a time. Each RunFunc runs on
// its own goroutine.
//
// # Errors
//
// [New] rejects invalid settings. Run returns the error of a RunFunc that returned although its member
// still held the shard. Other failures are retried, logged, and shown in [State]. [RunFunc] documents
// the effect of a panic.
//
// # Code
//
// Read Member.Run in member.go, then life.go: a loop that looks at all leases and takes the next steps.
// view.go is what a member sees of the leases, and computes who should have which shard. keeper.go renews
// the member's own lease, tenure.go takes one shard, works on it and gives it back, and state.go shows all of
// that.
package shard
