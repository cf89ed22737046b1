// Package reflectortest is an in-memory Kubernetes API server with faults, for tests. It follows
// the protocol of lists and watches exactly.
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
//   - The stored kinds of client-go's scheme are served, in JSON and in protobuf. Any
//     struct with metadata is served in JSON after [WithResource], or [WithDefinition] with the
//     manifest of a CustomResourceDefinition. With [WithCustomResourceDefinitions], kinds come and go
//     while the server runs, as the test or a client creates, changes and deletes their definitions.
//   - [Server.Create], [Server.Update], [Server.Delete], [Server.Get], [List], [Server.ListKind] and
//     [Server.Seed] are for the test itself: they use no HTTP, meet no faults, and write the status too.
//   - [Server.Inject] activates a [Fault]: a value, scoped by verb, resource, namespace and count.
//     It panics at a scope that no request can have.
//   - [Server.WaitFor] waits for a state of the stored objects.
//   - [WithGarbageCollection] makes the server collect garbage as Kubernetes does: dependents go
//     after their owners, the policies Foreground and Orphan have their effect, and a deleted
//     namespace goes after what was in it. [Server.CollectGarbage] is for a test that decides when.
//   - [WithDefaults] sets the defaults of built-in kinds. Those of a definition are always set.
//   - [WithStableUIDs] gives an object the same UID, and the same generated name, in each run.
//   - [WithAdmission] calls a function in the place of a webhook.
//   - [Server.Requests] and [Server.WaitForRequests] return the requests of the client.
//
// # What it promises
//
//   - Every write gets the next resource version of one counter; a write that
//     changes nothing gets none.
//   - A watch from a version gets every later change of its resource, in order, deletions included.
//     An object that leaves a selector is DELETED, and an object that enters it is ADDED, with the
//     states and versions of the real server.
//   - A bookmark's version is never ahead of the events before it. It is the version of the last
//     change of any resource at that time.
//   - A list shows one version, over all of its pages.
//   - A version before a compaction is 410 Expired: a watch gets it in an ERROR event, and a list
//     in its answer. For a page, the answer has a token to continue with.
//   - A server-side apply merges by the schema of a built-in kind, or by [Resource].Schema. Its
//     conflicts name the managers of all earlier writes that the history still holds. The field
//     manager of [Server.Create], [Server.Update] and [Server.Seed] is "reflectortest".
//   - Errors are Status objects with the real server's reasons, codes, details, messages and
//     Retry-After.
//   - The package conformance tests all of this against kube-apiserver v1.36.3, with tables that
//     both have to pass. Where they differ, this server is wrong.
//
// # Concurrency
//
//   - Every function and method may be called from any goroutine. The server calls no code of the
//     caller while it holds a lock.
//   - A watch pulls from the history at its own pace. A slow client delays no other client, and the
//     server buffers nothing for it.
//   - Each request has its own connection. net/http repeats a GET by itself when a reused
//     connection breaks, which would hide a fault.
//   - [Server.Close] ends every request and returns when the goroutines have ended.
//   - The server encodes an object once in each format, at its first use. All lists and watches
//     share the bytes. The history grows with every change unless [WithHistory] bounds it. The
//     record of requests grows until [Server.ForgetRequests].
//
// # What it does not do
//
//   - Authentication, authorization, quotas, priority and fairness: every client may do everything,
//     and a namespace need not exist. A new server has none, not even default and kube-system. Of admission
//     there is what [WithAdmission] adds.
//   - Validation of specs: the server checks only the metadata, and Events of both groups, as the real
//     server does. Of a custom resource it neither prunes unknown fields nor refuses them with
//     fieldValidation, and it sends no warnings.
//   - Defaults of built-in kinds without [WithDefaults], and allocation: cluster IPs, node ports and
//     the selectors of Jobs.
//   - Controllers, except for the garbage collector, which also ends namespaces. Without a kubelet, a pod on a
//     node stays until it is deleted with grace period 0. The garbage collector is off by default: the
//     finalizers of the policies Foreground and Orphan then hold an object until the test removes them,
//     and a deleted namespace stays, terminating. A namespace gets no conditions.
//   - Conversion: each version of a group is a collection of its own, except for those of a
//     definition that [WithCustomResourceDefinitions] follows, which differ in the apiVersion alone. So are the Events
//     of the core group and those of events.k8s.io, which in Kubernetes are the same: a test has to list those of the
//     group that the program writes. For the garbage collector, an owner reference names an object of any version.
//   - Of a followed definition: conversion webhooks, scale, printer columns, and the checks of the schema. It
//     is established in one update, where the real server makes two, and it makes no APIService of its own.
//     Requests, watches and discovery follow a change at once, where the real server takes some seconds.
//     Definitions and APIServices are served in JSON, and take no strategic merge patches.
//   - Creation by update; subresources other than status. The answer for one that a real server has, such as
//     pods/eviction or deployments/scale, is 501, because many programs take 404 for an object that is gone.
//     A write to /status changes only the status. On the real server, some built-in kinds also take labels,
//     annotations, finalizers or owner references from it.
//   - Kinds that are not stored: TokenReview, SubjectAccessReview and their like, Binding, ComponentStatus.
//   - A limit of an object's size. etcd refuses a request of more than 1.5 MiB.
//   - managedFields before an object's first server-side apply. Until then the object keeps the
//     managedFields that it was written with.
//   - Table output, YAML other than in an apply, CBOR, compression, pretty printing, websockets, OpenAPI, HTTP/2 and TLS.
//   - Field selectors of alpha and beta versions, but for metadata.name and metadata.namespace, and of
//     [Resource].
//   - Waiting: a get, a list and a watch-list at a version in the future are refused at once. The
//     real server waits three seconds first. Both servers accept a plain watch from a future
//     version: it waits silently until the version is passed.
package reflectortest
