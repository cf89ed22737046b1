// Package inspect shows informers live, in a browser: what each reflector does and why it
// is not synced, what is in the cache, how far behind each subscriber is, and the last
// changes with where they came from. It is to informers what net/http/pprof is to a
// program.
//
// # Usage
//
//	page := inspect.New()
//	inspect.Add(page, pods)
//	inspect.Add(page, deployments)
//	page.AddMember("reconciler of Deployments", reconciler)
//	mux.Handle("/debug/informers/", http.StripPrefix("/debug/informers", page))
//	server.RegisterOnShutdown(page.Close)
//
// Nothing is served unless you mount it. A page only reads; it answers GET and HEAD and
// nothing else. It does not ask who looks: mount it where only those come who may read the
// objects in the caches, as you would net/http/pprof. The page answers whatever the Host header
// says, so a website that resolves its own name to a loopback address can read the page through a
// browser on that machine. Put the page behind authentication, and do not serve it on a public
// address.
//
// # What it shows
//
//   - The overview, at the root of the page: every informer as a picture of the pipeline
//     (API server, reflector, cache, event queues, handlers), in the three colours of the
//     documentation, with its numbers. With a script that comes with the page it moves;
//     without, it is a page that renews itself.
//   - objects: the keys of a cache, by namespace or part of the key.
//   - object: one object as YAML, what waits for it at each subscriber, and its last
//     changes.
//   - state.json: a [State], all that the overview shows. object.json: an [ObjectState].
//   - stream: server-sent events, each with the overview, or with stream?as=json a [State].
//
// # Guarantees
//
//   - N1. What is secret stays so: every value under data and stringData of a Secret is
//     shown as a mask, whether T is the type of Kubernetes, one of your own, metadata or
//     unstructured, and wherever in T the Secret is. The values of its annotations are masked as
//     well, but for a few that name other objects, and so is a text of any object that quotes
//     a Secret. [WithMasked] adds fields.
//     Errors are shown as they are, as they are logged: what your handlers return should
//     not quote what is secret, and a reflector quotes the first bytes of an answer that
//     it cannot read.
//   - N2. An informer pays for being shown by noting the key and version of each change
//     in a ring of fixed size, which keeps no object alive; see [WithHistory]. All else
//     is done when somebody looks: the overview at most once in [WithInterval] for all
//     who do, pages of objects for each who asks.
//   - N3. What is shown is what the program sees at the same time: nothing is counted a
//     second time.
//   - N4. Everything that the page needs comes from the page; it loads nothing from
//     elsewhere, and its Content-Security-Policy says so.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine, and while informers run.
package inspect
