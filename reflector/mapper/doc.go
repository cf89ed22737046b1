// Package mapper maps kinds to resources by API discovery. It caches the discovery results on disk,
// as kubectl does, or in memory.
//
// # Usage
//
//	m, err := mapper.OnDisk(config)
//	...
//	pods, err := client.For[*corev1.Pod](config, client.WithRESTMapper(m))
//
// # Guarantees
//
//   - mapper-M1: The mapper sends a discovery request only when one of its methods needs the
//     result. It does not repeat the request while the cached result is younger than its lifetime.
//     The lifetime is ten minutes unless [WithTTL] sets another one. On disk this holds for all
//     processes that use the directory.
//   - mapper-M2: If a cached result lacks a kind, the mapper requests discovery again before it
//     reports the kind as missing. After that, it requests a missing kind again only after
//     [Mapper.Reset]. [client.For] resets the mapper while it waits for a kind.
//   - mapper-M3: Each server has its own results: each host has its own directory.
//   - mapper-M4: If the directory is not writable or contains damaged files, the mapper sends more
//     requests. It does not fail.
//   - mapper-M5: A caller that waits for the server, or for another caller's request, returns when
//     its context ends.
//
// # Concurrency
//
// Any goroutine may use a Mapper, any number of resources may share it, and any number of processes
// may share a directory. One goroutine at a time uses the mapper.
//
// # Errors
//
// If the server does not serve a kind, the error is a [*meta.NoKindMatchError]. Other errors come
// from the discovery client.
package mapper
