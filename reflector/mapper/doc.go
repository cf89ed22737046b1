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
//     reports the kind as missing. If somebody goes on asking, it repeats the request after a second,
//     later after a quarter of the time since the first repetition, and at most once in ten seconds.
//     What it knows already costs no request.
//   - mapper-M3: Each server has its own results: each host has its own directory.
//   - mapper-M4: If the directory is not writable or contains damaged files, the mapper sends more
//     requests. It does not fail.
//   - mapper-M5: A caller that waits for the server, or for another caller's request, returns when
//     its context ends.
//   - mapper-M6: A group of the server that does not answer discovery is not reported as missing: a
//     question about it gets a [*GroupError]. The mapper asks again at the pace of mapper-M2. What it
//     knew of the group before stays, and so does everything if discovery fails as a whole. Other
//     groups are not affected.
//
// # Concurrency
//
// Any goroutine may use a Mapper, any number of resources may share it, and any number of processes
// may share a directory. One goroutine at a time uses the mapper.
//
// # Errors
//
// If the server does not serve a kind, the error is a [*meta.NoKindMatchError]; meta.IsNoMatchError
// recognizes it. A [*GroupError] names an API group that does not answer, such as an aggregated API
// whose server is down. An [*Error] means that discovery failed as a whole. Both wrap the server's
// answer, and an Error of a refused request names its path.
package mapper
