// Package wirebench measures the path from the bytes of an API server to a store and a handler: the
// subcommand "wire". It compares this library with client-go's informers, with controller-runtime's
// cache and with the smallest possible program on net/http.
//
// A server in a process of its own replays canned objects. They are 20,000 pods of about 8.5 kB of
// JSON or 5.8 kB of protobuf, as templates or with nothing in common. Other data sets are pods,
// Secrets and ConfigMaps as in real clusters, and custom resources.
//
// Each contender has a process of its own as well. It lists and watches until its handler knows all
// objects. Then each object changes once, in no order, and then some objects change alone. Then its
// watch fails, and it lists the unchanged objects again. A process measures itself once for all
// cases. It measures CPU time as the kernel counts it, wall time, allocations, the live heap after
// the first list, and the peak memory until then.
//
// Connections are neither encrypted nor compressed. The server and the client share the machine's
// processors, so a wall time contains the server's copying, which is little.
package wirebench
