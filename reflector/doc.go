// Package reflector keeps a store equal to the objects on the Kubernetes API server.
//
// A [KubernetesResourceReflector] connects a client to a [store.Store]. It requests a watch-list
// from the API server: a watch that begins with all objects. If the server does not support
// watch-lists, the reflector lists the objects in pages. It then replaces the content of the store,
// and writes every later change to the store when the server reports it. It is the Reflector of the
// blog series "Understanding Kubernetes' tools/cache package", and of client-go's tools/cache. Its idea
// in 80 lines is in examples/series/part01_reflector.go.
//
// # Usage
//
//	pods, err := client.For[*corev1.Pod](config)
//	...
//	cache := store.New(store.ObjectKey[*corev1.Pod])
//	err = reflector.New(pods.In("default"), cache).Run(ctx) // until ctx ends
//
// [client.For] makes a client that decodes the server's answers straight into T. T needs only
// metadata and JSON tags. A struct of your own needs its kind:
//
//	telescopes, err := client.For[*Telescope](config, client.WithKind(telescopeKind))
//
// Every typed client from Kubernetes' code generator is a [Client] as well, without an adapter.
// Such a client uses as much CPU time as under client-go; for JSON, client.For uses a fraction of
// that. The client determines the type of the objects: a client of Deployments with a store of Pods
// does not compile. [client.FromRESTClient] and [client.FromTypedClient] decode straight into T
// through the connection of a generated clientset. [client.Dynamic], [client.Metadata] and
// [client.ListWatch] adapt client-go's other clients. client-go does the authentication, rate
// limits, retries and warnings.
//
// The client of For asks for protobuf where it can: see [client.Resource]. It decodes objects
// one by one while they arrive, and never holds a whole list. Decoded objects share equal values:
// see [client.WithoutInterning]. If objects arrive faster than one goroutine can decode them, other
// goroutines help, and all resources of a program share at most one helper less than there are
// processors.
//
// # Guarantees
//
//   - reflector-R1: The store receives changes in the order in which the API server reports them,
//     from one goroutine at a time. If several changes arrive together, a [store.BatchStore]
//     receives them as one commit. A change that arrives alone does not wait for others.
//   - reflector-R2: A watch that ends is resumed at its last version. If it lasted as long as the
//     reflector requested, the reflector resumes it at once. If it broke, the reflector probes
//     first (reflector-R6). If it ended early, the reflector resumes at a version from before
//     the bookmarks of the last ten seconds. For a server ends the watches of a kind when its
//     definition changes, and then shows the objects differently without new versions: it refuses
//     the older version, and the list that follows has each object as it is shown now. The reflector
//     relists after a rejected resource version (410: see the table in reflector/internal/protocol/doc.go),
//     an ERROR event other than 429, a forbidden watch, a rejected object, a stream that a
//     [client.Resource] cannot read, a [client.MismatchError] and ServerBehind. It also relists if
//     client-go cannot read three watches in a row that bring nothing. If three in a row end within a
//     second without news, or are refused or not answered although the server answers probes, it relists
//     when that has lasted for a minute, and then after each one.
//   - reflector-R3: If the store rejects an object, the reflector reports the error, and relists
//     after a back-off to fetch the object again. Until then the store keeps its previous object
//     under that key, and all other objects are updated as usual. If the store fails in any other
//     way, the reflector lists everything anew. An object of another type, kind, API group or
//     namespace ends the list or the watch ([client.MismatchError]): the server and the program do
//     not mean the same resource.
//   - reflector-R4: The reflector retries failures for ever, unless [WithRetry] says otherwise. The
//     next request follows within 30 seconds. It follows within 1.6 seconds after a list or a new
//     event, after the first rejected resource version, and after an answer with a Retry-After of
//     one second, unless that is the eleventh in a row. A longer Retry-After is obeyed. The back-off
//     grows again with further failures, and starts anew after two minutes without one.
//   - reflector-R5: Relists use NotOlderThan, so the API server answers from its watch cache. The
//     store receives no change for an unchanged object. If the store is a [store.BatchStore], a
//     [client.Resource] does not even decode unchanged objects: it compares the UID, the version and
//     a hash of the bytes, and the store keeps its object. Equal versions alone prove nothing,
//     because the server may show an object differently without a new version (store-S9).
//   - reflector-R6: The reflector probes before it resumes, after a broken watch and after two
//     silent minutes. The probe lists the one object that changed last, at the newest version. The
//     reflector lists everything anew (ServerBehind) if the server is at an older version than
//     before. It does the same if that object is not the one that the reflector received last, and
//     yet its version is not newer. So the reflector detects a server that was restored from a
//     backup, even if that server has passed the client's version. If the probe itself fails, the
//     reflector retries it twice, then lets the server's answer to the watch decide, and probes once
//     more: the table in reflector/internal/protocol/doc.go has each case. Restored servers, below, lists the
//     cases that no probe can detect.
//   - reflector-R7: No server makes a reflector wait for ever. The reflector gives up a watch that
//     is still open after eleven minutes and was silent for the last two (SilentWatch). It waits
//     two minutes for the answer to a watch or a probe, and ten minutes for a page (NoAnswer). It
//     gives up a list after half an hour or ten million objects (EndlessList), and a watch-list after
//     half an hour or 30 seconds without an addition (NoInitialEventsEnd). It waits at most ten
//     minutes for a Retry-After. If two consecutive watches last less than ten seconds each, it
//     reports the second one (ShortWatch), and opens about one watch a second. A watch that brought
//     a hundred changes does not count, however soon it ended: a busy server ends watches that are
//     slow, and the reflector resumes at once. After three broken watch-lists, or one that the
//     server does not support, the reflector uses lists for an hour; [State] gives the reason. A
//     watch-list that is not answered is followed by a list.
//   - reflector-R8: When ctx ends, Run stops waiting at once, and returns after everything that it
//     started has ended. If a client does not end its watch when the reflector stops it, the
//     reflector gives that watch up after five seconds. If resources share a mapper
//     ([client.WithRESTMapper]), Run may also wait for discovery requests that another resource
//     makes through it.
//   - reflector-R9: A recording (package record) never ends or delays a program's requests. Only the
//     recorder's Close waits for the writer, for at most five seconds. If the recording ends before
//     that, Close reports it, and the written part can be replayed. The recording omits the data of
//     Secrets.
//   - reflector-R10: A replay of a recording reproduces the changes that the recorded reflector
//     committed, in their order. If the reflector makes a request that is not in the recording, it
//     receives a DifferenceError.
//   - reflector-R11: With [WithShard] the store receives exactly the objects of the reflector's
//     shards. This holds whether the server supports shard selectors, ignores them, refuses them,
//     or changes its behaviour, and after a resume without a list. A [client.Resource] drops
//     most objects of other shards before it decodes them; their resource versions still count. If a
//     server reports a selection but sends objects of other shards, the reflector asks it for
//     everything: [ErrShardMismatch]. A watch-list carries no such report, so there the reflector
//     cannot detect this.
//   - reflector-R13: If the first list has no resource version, as lists of extension servers that
//     compute their objects, the store receives it, and the phase is [Polling]. The reflector lists
//     again after 24 to 30 seconds. A watch, if the server serves one, only brings the next list
//     forward, to 1 to 1.6 seconds after an event and at least as long as the last list took. If
//     earlier lists had a version, the store keeps its content, and receives such a list after 15
//     minutes of them, in which no list had a version. A client whose watches are a FakeWatcher or a
//     RaceFreeFakeWatcher of client-go is a test double, whose lists need no version.
//   - reflector-R14: If the store has a version, for example from an earlier process,
//     the reflector takes no older state from an API server that only lags behind: it watches from
//     that version, and lists not older than it or consistently. A consistent list that is older
//     comes from a restored server, and the reflector reports ServerBehind before the store takes
//     it. The first list of an empty store is consistent if it is a watch-list, or if a
//     [client.Resource] can ask the server for its version, and that is Kubernetes 1.34 or later.
//     Otherwise it is at version "0", and may be older than what an earlier process saw.
//
// # Restored servers
//
// A server that is restored from an older snapshot uses resource versions a second time. Once the
// server has passed the version of a client, the version alone does not reveal the restore, and the
// server accepts the client's watch. The probe detects the restore by the object that changed last,
// since the restored server has lost that change. The probe cannot detect the restore if
//
//   - that object was changed or deleted again on the restored server, at a newer version than
//     the client's, or was created after the snapshot,
//   - the last change is older than the snapshot, and only other objects changed since,
//   - the watch did not break, or the program was stopped meanwhile, or
//   - the client replaces the field selectors of requests, as cache.NewListWatchFromClient does. The tweak
//     of a factory of this module only adds to them.
//
// Then some objects in the store stay wrong until they change again: objects that the server lost,
// and objects written at versions that the client had passed. To prevent this, restore etcd with a
// higher revision and marked as compacted (etcdutl snapshot restore --bump-revision
// --mark-compacted, etcd-io/etcd 16028). Each watch then expires, and each reflector lists anew.
// Otherwise restart the programs after the servers, and drop stores that outlive a program.
//
// # How it works
//
// A state machine without goroutines, clock or I/O, in reflector/internal/protocol, decides what the
// reflector does next. Its documentation has the reaction to each failure in one table, with a 410
// as the example, and its scripts show whole conversations. run.go executes the actions.
//
// # Concurrency
//
// Run works on the calling goroutine. At most one Run of a reflector may be active at a time. All
// other methods may be called from any goroutine.
//
// # Errors
//
// Run reports each failure as an [*Error], except for a refusal that it answers with another
// request at once, such as a 410. The Error names the operation and the resource version, and goes
// to the logger, to the function given by [WithErrorHandler] and into [State]. It ends Run only if
// [WithRetry] calls it final.
//
// If a [client.Resource] cannot decode an object, the store lacks that object, and the error is a
// [*answer.DecodeError]. It names the field that does not fit. A panic in one of T's own methods is
// a DecodeError as well, and names the method. A generated client decodes whole lists, so one bad object
// fails the whole list, and client-go's error may quote its values.
//
// A failed request of a [client.Resource] is an [*answer.ResponseError] with the request, the status
// code and the content type. Its texts have at most 1 KiB and quote no value of an object. Errors
// for rejected objects are combined, and after the first ten the reflector reports them at most
// once a second. A [client.Resource] refuses a redirect to another host or scheme
// ([answer.RedirectError]). The reflector resumes a watch whose connection broke. It relists after
// any other stream that a [client.Resource] cannot read.
//
// Run itself returns [ErrNoClient], [ErrNoStore] or a [*ListTypeError] if the reflector's parts do
// not fit, and [ErrRunning] if it runs already.
//
// # Servers that misbehave
//
// A [client.Resource] bounds the bytes that it reads from a server or a proxy. A generated client
// reads each answer whole before the reflector sees it:
//
//	answer                        Resource             generated client
//	object or event without end   WithMaxObjectBytes   list not bounded, watch 16 MiB in protobuf
//	page without end              10 minutes           not bounded
//	refusal without end           1 MiB                not bounded
//	discovery without end         16 MiB               -
//	compressed answer             as its plain bytes   not bounded
//	redirect to another server    refused              followed, with credentials
//
// Bound a generated client by its config, with a transport that limits response.Body and refuses
// such redirects: config.Wrap(func(to http.RoundTripper) http.RoundTripper { … }).
package reflector
