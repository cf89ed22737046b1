// Package reflectortest is an in-memory Kubernetes API server with faults: a
// double for tests, honest about the protocol of lists and watches.
//
// client-go's fake clientset loses an object's deletion between a list and a
// watch, gives objects no resource versions and sends no bookmarks. This server
// speaks HTTP to unmodified clients and keeps one versioned history, as etcd
// does, so that the hard parts of the protocol happen in a test.
//
// # Usage
//
//   - [Start] makes a server that ends with the test, [NewServer] one that its
//     caller closes. [Server.Config] is for kubernetes.NewForConfig and for the
//     dynamic, metadata and discovery clients.
//   - A server is in memory: it opens no port and works inside a testing/synctest
//     bubble, where timeouts, bookmarks and stalls take no time. Start it inside the
//     bubble: one from outside of it cannot be reached from within. [OnPort] makes
//     one that curl reaches.
//   - All types of client-go's scheme are served, in JSON and in protobuf. Any
//     struct with metadata is served in JSON after [WithResource].
//   - [Server.Create], [Server.Update], [Server.Delete], [Server.Get], [List] and
//     [Server.Seed] are the test's own hand: no HTTP, no faults, and they write
//     the status too.
//   - [Server.Inject] puts a [Fault] to work: a value, scoped by verb, resource,
//     namespace and count. It panics at a scope that no request can have.
//   - [Server.Requests] and [Server.WaitForRequests] say what the client asked.
//
// # What it promises
//
//   - Every write gets the next resource version of one counter; a write that
//     changes nothing gets none.
//   - A watch from a version gets every later change of its resource, in order,
//     deletions included; what leaves a selector is DELETED, what enters it ADDED,
//     with the states and versions that the real server gives.
//   - A bookmark's version is never ahead of the events before it, and is that of
//     the last change to anything when it is sent.
//   - A list shows one version, over all of its pages.
//   - A version before a compaction is 410 Expired: in an ERROR event for a watch,
//     in the answer for a list, with a token to go on for a page.
//   - Errors are Status objects with the real server's reasons, codes, details,
//     messages and Retry-After.
//   - The package conformance holds all of this to kube-apiserver v1.36.3 by tables
//     that both have to pass. Where they differ this server is wrong.
//
// # Concurrency
//
//   - Everything may be called from any goroutine. Nothing of the caller's runs
//     under a lock of the server.
//   - A watch pulls from the history at its own pace: a slow client delays nobody
//     and nothing is buffered for it.
//   - Each request has a connection of its own, because net/http repeats a GET by
//     itself when a reused connection breaks, and would hide a fault.
//   - [Server.Close] ends every request and returns when the goroutines have ended.
//   - An object is encoded once in each form, when it is first asked for, and the
//     bytes are shared by all lists and watches. The history grows with every
//     change unless [WithHistory] bounds it, and so does the record of requests
//     until [Server.ForgetRequests].
//
// # What it does not do
//
//   - Authentication, authorization, admission, quotas, priority and fairness:
//     everybody may do everything, and a namespace need not exist.
//   - Defaulting and validation of specs: an object is stored as it was sent, but
//     for its metadata, which is checked as there.
//   - Controllers: no garbage collection, no namespace finalization, no kubelet.
//     A pod on a node stays until it is deleted with grace period 0, the policies
//     Foreground and Orphan add finalizers that somebody has to take away, and a
//     deletion of a Job without a policy orphans nothing.
//   - Conversion: each version of a group is a collection of its own.
//   - Server-side apply and managedFields; creation by update; subresources other
//     than status. A write to /status changes the status and nothing else, where
//     some built-in kinds there take labels and annotations from it too.
//   - Table output, YAML, CBOR, compression, pretty printing, websockets, OpenAPI,
//     HTTP/2 and TLS.
//   - Field selectors on anything but metadata.name and metadata.namespace.
//   - Waiting: a get, a list and a watch-list at a version in the future are refused
//     at once, where the real server waits three seconds for it first. A plain watch
//     from one is not refused, here as there: it waits silently until the version is
//     passed.
package reflectortest
