// Package reflector keeps a store equal to what the Kubernetes API server holds.
//
// A [KubernetesResourceReflector] takes a client and a [store.Store] at
// construction and hides the rest: it asks for a watch that begins with all
// objects, or lists them in pages where the server does not know such watches,
// replaces the content of the store with them, and puts every change into the store
// as it is reported. It is the Reflector of the blog series "Understanding
// Kubernetes' tools/cache package", and of client-go's tools/cache.
//
// # Usage
//
//	pods := store.New(store.ObjectKey[*corev1.Pod])
//	r := reflector.New(clientset.CoreV1().Pods("default"), pods)
//	err := r.Run(ctx) // until ctx ends
//
// Every typed client that Kubernetes' code generator makes is a [Client] as it
// is. The type of the objects comes from it: a client of Deployments over a store
// of Pods does not compile. [Dynamic], [Metadata] and [ListWatch] adapt client-go's
// other clients.
//
// [ForResource] makes a client that decodes what the server sends straight into T, which
// needs metadata and JSON tags, and nothing else:
//
//	client, err := reflector.ForResource[*Telescope](config, telescopes, "default")
//	r := reflector.New(client, store.New(store.ObjectKey[*Telescope]))
//
// It is for built-in types as well. [ForKind] finds the resource of a kind by discovery,
// [ForREST] takes the REST client of a generated clientset, and [ForClient] any of its clients.
// Authentication, limits, retries and warnings are client-go's.
// Protobuf is asked for if T has a generated Unmarshal. Objects are decoded one by one as they
// come, a list is never held as a whole, and what is equal in them is shared: see [Share].
// Where more comes than one goroutine can decode, others help: see [WithDecoders].
//
// # Guarantees
//
//   - R1. The store hears of changes in the order in which the API server
//     reports them, from one goroutine at a time. A [Resource]'s changes that came
//     together are one commit of a [store.BatchStore]; one that comes alone waits for
//     no others.
//   - R2. A watch that ends is resumed where it was: at once if it lasted as long as it was
//     asked to, and after a probe if it broke (R6). A stream that client-go cannot read counts
//     as broken, until it broke three times in a row at one version. The reflector relists
//     after a rejected resource version (410), an ERROR event, a forbidden watch, a
//     rejected object, a stream that a [Resource] cannot read, a [MismatchError] and
//     [ErrServerBehind].
//   - R3. An object that the store rejects is reported, and is fetched again by a
//     new list after a back-off; what the store held under its key stays until
//     then, and everything else goes on. If the store failed in any other way, all is
//     listed anew.
//     An object of another type, kind, API group or namespace ends the list or the watch
//     ([MismatchError]): the server and the program do not mean the same resource.
//   - R4. Failures are retried for ever, unless [WithRetry] says otherwise, with
//     a back-off that grows from 0.8 to 30 seconds and starts anew only after
//     two minutes without a failure.
//   - R5. Relists use NotOlderThan, so the API server answers from its watch cache. The
//     store receives no change for an unchanged object. A [Resource] does not even
//     decode them, if the store is a [store.BatchStore]: it looks for UID and version in the
//     bytes, and the store keeps the object that it has.
//   - R6. After a broken watch, and after two silent minutes, the reflector probes before it
//     resumes: it lists the one object that changed last, at the newest version. It
//     lists everything anew ([ErrServerBehind]) if the server is at an older version than
//     before, or if that object is not what it was although it is no newer. So it detects a
//     server that was restored from a backup, also one that has overtaken the client's
//     version. After a broken watch it retries a probe that fails twice, with back-off, and
//     then resumes. A [SharedClient] is probed after two silent minutes only. See
//     Restored servers for what no probe can detect.
//   - R7. Nothing makes a reflector wait for ever. It gives up a watch that has not ended
//     after eleven minutes and was silent for the last two ([ErrSilentWatch]), a watch or a
//     probe that is not answered within two minutes and a page within ten ([ErrNoAnswer]),
//     and a list after half an hour or ten million objects ([ErrEndlessList]). It waits for
//     at most ten minutes because of a Retry-After. The second of two watches in a row that
//     end within ten seconds is a failure ([ErrShortWatch]), whatever they brought. After
//     three broken watch-lists, or one that the server does not know, it uses lists for an
//     hour; [State] says why.
//   - R8. When ctx ends, Run stops waiting at once, and returns after all that
//     it started has ended. A watch that the client does not end when told to is
//     given up after five seconds. A mapper that resources share, by [WithRESTMapper], may
//     make Run wait for as long as the requests of another that asks it.
//   - R9. A recording ([WithRecorder]) neither ends the reflector nor makes it wait for its writer,
//     but for five seconds at the end of Run; if it ends before the reflector does, that is reported,
//     and what was written can be replayed. The data of Secrets is not in it unless it was asked for.
//   - R10. A [Replay] brings about the commits that the recorded reflector made, in their order. Where
//     the reflector asks for something that the recording does not have, there is a
//     [*DifferenceError].
//   - R11. With [WithShard] the store gets what is in the shards and nothing else, whether
//     the server knows shard selectors, does not, refuses them, or changes its mind, and after
//     a resume without a list. What is in no shard is left out before it is decoded, if the
//     client is a [Resource], and its resource versions count. A server that says that it
//     selected, and meant other objects, is asked for everything: [ErrShardMismatch]. In a
//     watch-list, which says nothing, that does not show.
//   - R12. Reflectors of shards that share a client by [ForShards] read one watch while the server
//     sends each of them everything, and what is promised above holds for each as if
//     it had its own: whoever comes or leaves, and whatever becomes of that watch. One
//     that falls behind makes the others wait for five seconds in all, and goes on
//     with a watch of its own. What waits for a reflector is bounded: by half a megabyte of
//     a [Resource]'s, or 512 events of another client, and what came last.
//
// # Restored servers
//
// A server that is restored from an older snapshot uses resource versions a second time.
// Once it has passed the version of a client, no version tells the client so, and the server
// accepts its watch. The probe detects this by the object that changed last, since the
// restored server has lost that change. It cannot detect it if
//
//   - that object was changed or deleted again on the restored server, at a newer version
//     than the client's,
//   - the last change is older than the snapshot, and only other objects changed since, or
//   - the watch did not break, or the program was stopped meanwhile.
//
// Then objects that were lost, or were written at versions that the client had passed, stay
// wrong until they change again. Restore etcd with a higher revision and marked as compacted
// (etcdutl snapshot restore --bump-revision --mark-compacted, etcd-io/etcd 16028): each watch
// then expires, and each reflector lists anew. Otherwise restart the programs after the
// servers, and drop stores that outlive a program.
//
// # How it works
//
// The conversation with the server is a state machine without goroutines, clock or
// I/O, in protocol.go. The scripts in testdata/protocol show what it does in each
// situation; run.go does what it says.
//
// # Concurrency
//
// Run works on the calling goroutine; at most one Run of a reflector at a time.
// All other methods may be called from any goroutine.
//
// # Errors
//
// What goes wrong while Run runs is an [*Error], which says what was being done
// and with which resource version. It goes to the logger, to the hook given by
// [WithErrorHook] and into [State], and ends Run only if [WithRetry] calls it
// final. An object that cannot be decoded is one that the store lacks, and a
// [*DecodeError], if the client is a [Resource]; it says which field does not fit, and a panic of
// one of T's own methods is one as well. Generated clients decode whole lists,
// which then fail as a whole. A failed request of a [Resource] is a [*ResponseError] with the request,
// the status code and the content type. Texts have at most 1 KiB and quote no object. Rejected
// objects are reported together, and at most once a second after the first ten. A redirect to another
// host or scheme is refused ([RedirectError]). A watch whose connection
// broke is resumed. Any other stream that a [Resource] cannot read causes a relist. Run itself
// returns [ErrNoClient], [ErrNoStore] or a [*ListTypeError] if the reflector was put together
// wrongly, and [ErrRunning] if it runs already.
//
// # Servers that misbehave
//
// A [Resource] bounds what a server, or a proxy in its place, can make it read. A generated client
// reads each answer whole before the reflector sees it:
//
//	answer                        Resource             generated client
//	object or event without end   WithFrameLimit       list not bounded, watch 16 MiB in protobuf
//	page without end              10 minutes           not bounded
//	refusal without end           1 MiB                not bounded
//	compressed answer             as its plain bytes   not bounded
//	redirect to another server    refused              followed, with credentials
//
// Bound a generated client by its config, with a transport that limits response.Body and refuses
// such redirects: config.Wrap(func(to http.RoundTripper) http.RoundTripper { … }).
package reflector
