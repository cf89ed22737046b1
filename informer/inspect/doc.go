// Package inspect shows informers live in a browser: what each reflector does, why it is not
// synced, the contents of the cache, the lag of each subscriber, and the last changes with their
// origin. It is to informers what net/http/pprof is to a program.
//
// # Usage
//
//	page := inspect.New()
//	inspect.Add(page, pods)
//	inspect.Add(page, deployments)
//	page.AddRunnable("reconciler of Deployments", reconciler)
//	mux.Handle("/debug/informers/", http.StripPrefix("/debug/informers", page))
//	server.RegisterOnShutdown(page.Close)
//
// The page is served only where you mount it. It is read-only: it answers GET and HEAD and no other
// method. It does not authenticate its readers. Mount it only for readers that may read the objects
// in the caches, as you would net/http/pprof. Put the page behind authentication, and do not serve it
// on a public address.
//
// Open the page by an IP address or localhost, as with kubectl port-forward. For any other host, the
// page answers 421 until [WithHosts] allows it: see inspect-N5.
//
// # Contents
//
//   - The overview, at the root of the page: the pipeline of each informer (API server, reflector,
//     cache, event queues, handlers) with its numbers, in the three colours of the documentation.
//     A badge says "ready", "ready, stale for 6 s" or "not ready". The tables show the last failure
//     of each reflector with its time, also after the recovery. A script of the page updates the
//     overview. Without the script, the page reloads itself. On a narrow screen the pipeline stands
//     upright.
//   - objects: the keys of a cache, by namespace or part of the key.
//   - object: one object as YAML, the differences between its last versions, and its queued events
//     at each subscriber.
//   - state.json: a [State], which holds everything that the overview shows. object.json: an
//     [ObjectState].
//   - stream: server-sent events, each with the overview, or with stream?as=json a [State].
//
// # Guarantees
//
//   - inspect-N1: The page masks every value under data and stringData of a Secret. This holds for
//     Kubernetes' type, your own types, metadata and unstructured objects, wherever in T the Secret
//     is, and for differences. In an object that states another kind, a Secret is known by its Go
//     type, which has "secret" in its name if it is your own, or by its kind, its stringData or one
//     of Kubernetes' types of Secrets. An object whose Go type has Secrets in it has all of its data
//     masked. The page also masks the values of a Secret's annotations, except for
//     a few that name other objects, and any text of an object that quotes a Secret. [WithMasked]
//     adds fields. Errors are unmasked, as in logs: your handlers should not return errors that
//     quote secrets. A reflector quotes the first bytes of an answer that it cannot read.
//   - inspect-N2: The cost for an informer is one entry of a ring for each of the last 512
//     changes, with key and version. The newest 64 also keep the object before and after the
//     change. All other work happens only while a reader has a page open. The
//     page computes the overview at most once in [WithInterval] for all readers, and pages of
//     objects for each request.
//   - inspect-N3: The page shows the same numbers that the program sees: it keeps no counters of
//     its own.
//   - inspect-N4: The page serves every file that it needs and loads nothing from elsewhere. Its
//     Content-Security-Policy enforces that.
//   - inspect-N5: The page answers only requests whose Host header is an IP address, localhost, or a
//     name of [WithHosts]. Otherwise a website that resolves its own name to the address of the page
//     could read it through the browser of a visitor who reaches that address.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine, and while informers run.
//
// # Code
//
// page.go holds what a page shows, and routes.go serves it. watched.go collects the state and the last
// changes of one informer, and shows one object, with its secrets masked, and the differences of its
// versions. state.go is the form that readers get.
package inspect
