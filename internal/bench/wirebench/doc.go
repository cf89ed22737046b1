// Package wirebench measures the way from the bytes of an API server to a store and a handler, beside client-go's informers, controller-runtime's cache
// and the least that could be written with net/http: the subcommand "wire".
//
// A server in a process of its own replays canned objects: 20,000 pods of about 8.5 kB of JSON or
// 5.8 kB of protobuf, as templates or with nothing in common; pods, Secrets and ConfigMaps as in the
// field; or custom resources. Each contender has a process of its own as well, which lists and watches until its handler knows all objects, has each
// object change once, in no order, and then some that change alone; and has its watch fail, so that it lists again what did not change. A process measures itself, for all cases at once: CPU time as the kernel counts it, wall time, what is allocated, the heap that is live
// after the first list, and the most memory until then.
//
// Connections are neither encrypted nor compressed. The server and the client share the machine's processors, and so a wall time has the server's
// copying in it, which is little.
package wirebench
