// Package mapper says which resource a kind is, by what a server tells of itself, and
// keeps what it told: on disk, as kubectl does, or in memory.
//
// # Usage
//
//	m, err := mapper.OnDisk(config)
//	...
//	pods, err := reflector.ForKind[*corev1.Pod](config, "default",
//		reflector.WithScheme(scheme.Scheme), reflector.WithRESTMapper(m))
//
// # Guarantees
//
//   - M1. The server is asked when something is asked of the mapper, and not before; and
//     not again while what it told is not older than its life, ten minutes unless [WithLife]
//     says otherwise. On disk that holds for all processes that use the directory.
//   - M2. A kind that is missing in what the server told earlier has it asked again, before
//     that is an answer. After that a missing kind is asked for anew when [Mapper.Reset]
//     was called, as [reflector.ForKind] does for a kind that it waits for.
//   - M3. Servers do not share what they told: each host has its own directory.
//   - M4. A directory that cannot be written, or has rubbish in it, costs requests and
//     nothing else.
//   - M5. Whoever waits, for the server or for somebody else who asks it, ends with the
//     context.
//
// # Concurrency
//
// A Mapper may be used from any goroutine, by any number of resources, and a directory by
// any number of processes. One goroutine asks at a time.
//
// # Errors
//
// A kind that is not served is a [*meta.NoKindMatchError]; other errors are those of the
// discovery client.
package mapper
