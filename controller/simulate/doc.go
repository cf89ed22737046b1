// Package simulate runs an operator in a simulated cluster, disturbs it at every write, and reports
// what it would get wrong in production, each finding with a line that plays it again.
//
// Operators fail where their tests never go: the process ends between two writes, an answer is lost
// after the write was stored, a cache is a second behind, a user changes an object while it is being
// reconciled. This package plays these one by one, in `go test`, with the operator as it is:
// controller-runtime's manager or this project's, against an API server in memory with history,
// watches and a garbage collector. Time is simulated, so an hour of a run takes milliseconds, or about a
// second with a leader election.
//
//	func TestOperator(t *testing.T) {
//		simulate.Explore(t, simulate.Scenario{
//			Server:   []reflectortest.Option{reflectortest.WithDefinition(manifest, &Site{})}, // the YAML of the definition
//			Operator: func(ctx context.Context, config *rest.Config) error { … return manager.Start(ctx) },
//			Steps:    []simulate.Step{simulate.Create(site), simulate.Change(site, func(s *Site) { … }), simulate.Delete(site)},
//			Players:  []simulate.Player{simulate.Deployments},
//		})
//	}
//
// # How a run goes
//
// A run starts the operator on an empty cluster, and then does the steps of the user, each after the
// operator has settled: nothing was written for Quiet. The first run is undisturbed. Its writes are
// where the others are disturbed, and its states are what the others must reach.
//
// Every request of the operator, every answer and every event of a watch waits until the driver
// delivers it. The driver does so when all goroutines are blocked, one message at a time in a fixed
// order: events first, then answers, then requests. So each run of a schedule is almost always the
// same. Where it is not, because the operator itself is random, the finding says so.
//
// # Clauses
//
// A line has one clause or several, separated by ";". W is a write as findings and traces show it,
// for example "update sites/status default/a#2": the second such write of the run. A call of a system outside of
// the cluster is a write, too, if its fake uses [Call].
//
//	crash before W, crash after W     the process ends there; the next one starts with an empty cache
//	stop after W                      Operator's context ends there; after 30 seconds the process is killed
//	fail W with A                     the server refuses it: A is 409, 429, 500 or denied
//	fail W with A for 10m             it refuses each such write for that long
//	fail get sites default/a#1 with A the same for a read of one object, which no exploration plays
//	lose W                            the write is stored, and the operator gets 504 Timeout instead of the answer
//	hold R from W for N writes        events of a resource, or of * for all, come late, by at most ten
//	                                  seconds; also "for 30s"
//	expire R at W                     the watch ends with 410 Expired instead of its next event
//	step before W, step after W       the user's next step does not wait for the operator
//	steps N and N+1 together          the user does both at once
//	annotate after W                  another client annotates the object
//	slow                              each write takes over a second
//	compact                           after each write, the server forgets earlier ones: a watch from before them expires
//	restore before W                  once the operator has settled, the server returns to the state before W,
//	                                  from a backup, and the operator restarts
//	crash after V; restart behind W   the next process lists a state from before W; see Scenario.OldServers
//	crash after V; standby behind W   a second process takes over when the lease expires. It gets the events from
//	                                  W on ten seconds after it has taken over
//	stop after V; standby behind W    the same, but the first process can release its lease
//	lease lost at W                   the process cannot renew its lease, and a second one takes over
//
// The last three are for operators that hold a Lease. The second process starts before the first step, so it
// waits with warm caches.
//
// # What is a finding
//
//   - Before the first step or after a step, the cluster differs from the undisturbed run: an object or
//     a field is missing, left over or different. UIDs, versions, times and generated names are not compared,
//     nor is the order of lists whose items have names. Of a generation, only whether status.observedGeneration
//     is that of the object.
//   - The operator does not settle (a step has at most 300 writes, so keep scenarios small), ends by
//     itself, does not end when its context ends, or panics.
//   - An object stays in deletion.
//   - A write replaces a value that another client has written and that the process had not read, or
//     removes the annotation of annotate.
//   - A deletion by name without a precondition removes another object than the cache showed.
//   - An object is created or deleted more often than undisturbed.
//   - A process writes after it has lost its lease and another process has it, or two have one identity.
//   - Requests, or writes that change nothing, are a multiple of those of the undisturbed run.
//   - While a write fails for long, it is tried more often than once a second.
//   - Scenario.Invariant fails, or the lines of Scenario.Outside differ.
//
// # What it cannot see
//
//   - Quotas and validation do not take place, webhooks only with reflectortest.WithAdmission, and
//     defaults of built-in kinds only with reflectortest.WithDefaults. Subresources other than the
//     status do not exist; an operator that needs one is a finding.
//   - Calls of systems outside of the cluster whose fake does not use [Call].
//   - Reads that fail: an exploration disturbs writes and watches. See the clause "fail get".
//   - What an operator does by the clock after it has been quiet for Quiet, without a step of [Wait].
//   - A schedule decides the order of messages, not of goroutines: it finds no data race by itself. Run it
//     with -race.
//   - A bug that the undisturbed run has, too, unless it is of a kind that needs no comparison.
//
// # Code
//
// Read simulate.go first, then world.go, which is how a run goes, and deliver.go, which is what the clauses
// do. outside.go disturbs calls of other systems, processes.go starts and ends the operator, leases.go
// follows who leads, transport.go is where messages wait, oracle.go and state.go decide what is a
// finding, and schedule.go has the text of the clauses. players.go, pods.go and sets.go play other
// controllers.
package simulate
