// Package persist keeps a [store.Cache] in a file. After a restart, the next process serves the
// objects of the file at once. Its reflector resumes the watch from there instead of listing
// everything again.
//
// # Usage
//
//	pods, err := persist.Open("/var/cache/my-controller/pods", store.ObjectKey[*corev1.Pod], persist.Options[*corev1.Pod]{
//		Resource: "pods",
//		Cluster:  string(kubeSystem.UID), // of the namespace kube-system
//	})
//	...
//	defer pods.Close()
//	informer := informer.NewStored(clientset.CoreV1().Pods(""), pods)
//	err = informer.Run(ctx) // writes the file, too
//
// Without an informer, give the [Store] to a reflector, and call [Store.Run] while the reflector
// runs. Informer and reflector resume the watch at the version of the store. If the API server no
// longer has that version, the reflector lists, and only the differences are changes. It decodes
// each object of that list and compares it, because the file has no hashes of the server's bytes. A
// resumed watch compares nothing: an object that the server shows differently since then, without a
// new resource version, stays as it is in the file until the next list or change. That happens if a
// definition gets other defaults or another conversion shortly before the process ends: after an upgrade
// of definitions, start once with reflector.WithInitialList.
//
// An informer of several scopes resumes each scope at its own version. A scope that is in the file,
// but no longer in the program, stays until the program calls [Store.Drop]. Until then a program
// without scopes, or with a scope that overlaps it, gets a [*ScopesError].
//
// A program that does not call Run calls [Store.Flush] when it likes. Until then the store keeps
// unwritten changes in memory, up to [Options].MaxUnwritten. A write beyond this limit writes the
// file itself before it returns. If that fails, only Flush and Close try again. Until one of them
// succeeds, unwritten changes may take any amount of memory.
//
// # Reading
//
// All reads are reads of the cache in memory: indexes, snapshots, waiting, and followers of
// [Store.Cache]. Until the reflector reaches the API server, they show the state at the last write
// of the file: [State].Stale says so. The store is no longer stale when the server accepts a watch,
// even if the server then reports that it lacks the history. A follower that starts before that
// receives the objects of the file as its initial state. It then receives what happened between the
// two processes as changes: an object that no longer exists is a Deletion.
//
// # Guarantees
//
//   - persist-P1: The file always holds a state that the store had, with the resource versions of
//     that state, whenever the process ends. Each transaction writes all changes of whole commits,
//     and the versions after them. persist-P8 is the only exception.
//   - persist-P2: Open returns the objects as they were written, with the types and all digits of
//     the numbers in free-form data. Everything in the file has a checksum, and Open verifies it
//     before the store serves an object.
//   - persist-P3: When a process is killed, the file lacks only the latest changes. While Run runs,
//     these are the changes of the last Delay, and of the time that two transactions take. They are
//     never more than MaxUnwritten bytes and one commit, because writers wait. That bound does not
//     hold while writes of the file fail (persist-P5), or for direct writes to [Store.Cache]. The
//     watch that begins at the version of the file replays them.
//   - persist-P4: Open returns an error for a damaged file, and for a file with other content, and
//     does not change the file. One damage is no error, because it looks like a transaction that a
//     power failure cut off: if the newer of the two pages with which bbolt commits is damaged, the
//     store serves the transaction before. That is a state of persist-P1 with its own versions, so
//     the watch replays what the lost transaction had.
//   - persist-P5: A failure to write the file stops nothing. The store works from memory, and the
//     error hook and [State].Lasting report the failure. Run writes the missing changes as soon as
//     it can; without Run, Flush or Close does. The store cannot write a file that was deleted or
//     replaced: the next transaction finds out ([ErrReplaced]).
//   - persist-P6: The store writes no Secret to a file unless AllowSecrets says so: see Secrets below.
//   - persist-P7: Only Run works in the background.
//   - persist-P8: An object that cannot be encoded does not stop the others: the error handler and
//     [State].Unencoded report it. The file has the last state that could be encoded, or none. Until
//     that changes, the file has no version for the object's scope, so that the next process lists
//     the scope and finds the differences. The store tries again when the object changes, in Flush
//     and Close, and when Run ends.
//   - persist-P9: A process never takes an older state than that of the file from an API server that
//     only lags behind. It watches from the version of the file and receives nothing until the
//     server has passed it, and a list that it needs meanwhile is at that version or consistent
//     (reflector-R14). If even a consistent list is older, the server was restored from a backup.
//     The reflector then reports ServerBehind before the store takes that list: at the latest when
//     the silent watch is over, which takes eleven minutes and a back-off.
//
// After a power failure, persist-P1 holds as far as the disk honours fsync.
//
// The store reads the file through a mapping. If the disk fails during Open, Open returns
// [ErrDamaged]. If the disk fails later, while a transaction looks for free space, the operating
// system ends the process. It also does so if another process truncates the file at that time.
//
// Open removes the files path.new-* that a process leaves when it is killed while it makes the
// file, unless another process works on them.
//
// # Not in the file
//
// The file has no indexes: the store computes them again, so add them before there are many
// readers. It has no rejected objects either. The version stays before a rejected object, so the
// next watch delivers the object again, and some of the changes after it.
//
// The file has no events and does not know what handlers did. Objects that exist are no problem: the
// next process delivers each of them again, as its first state. But a deletion that the store
// received is a missing object for the next process, even if the handler failed or the process ended
// before the handler ran, so no event tells of it. The same is true without a file. A program that
// has to act on each deletion outside of the cluster therefore uses a finalizer, which keeps the
// object until the work is done, or compares what exists outside with the cache after Synced, and
// removes what has no object. The store does not keep deleted objects until a handler acknowledges
// them, because it cannot know which handlers the next program has: one that never comes back would
// keep them for ever.
//
// # The file
//
// Each store has one file of go.etcd.io/bbolt. etcd keeps its own data in bbolt. It has atomic
// transactions and a lock, is written in pure Go, and starts no goroutines. cockroachdb/pebble, a
// log-structured tree, takes more writes a second. But this store writes about once a second and
// reads once, and pebble is a directory with compactions in the background and much more code. The
// file grows to the size of the objects and one transaction. It does not shrink, but reuses its
// free space.
//
// Only the owner of the file can read it. Its content is clear text. You may delete it while no
// store has it open: the reflector then lists everything anew. Open does not change the permissions
// of an existing file.
//
// The store writes objects as protobuf if their type is from k8s.io/api, and else as JSON; see
// [Codec]. If a type has changed so that the program cannot decode an object, Open returns
// [ErrUndecodable]. If a type has new fields, or a transform or an option of the client keeps more than
// before, objects lack that until they change or are listed: change the name in Resource then.
//
// # Secrets
//
// Without AllowSecrets, Open rejects *corev1.Secret, a type with Secrets in its fields, and a Resource
// that names secrets, with [ErrSecret]. A store of a type without a fixed kind, such as
// unstructured.Unstructured, rejects each object of kind Secret. The items of a list have no kind, and
// metadata has only the kind PartialObjectMetadata. Without a Resource, the store rejects both with
// [ErrKindUnknown]; with a Resource, it trusts the Resource. The store cannot recognise the result of a
// Transform of a Secret, nor a Secret in a field of an object without a Go type or in an interface.
//
// # Concurrency
//
// All methods are safe for concurrent use. A write of the file never locks the cache.
//
// # Errors
//
// A problem with a file is a [*FileError] with its path. It wraps [ErrForeign], [ErrDamaged],
// [ErrNewer], [ErrUndecodable], [ErrLocked], [ErrReplaced], a [*MismatchError], or the error of the
// operating system. An [*EncodeError] in a FileError names an object that cannot be encoded. A
// store rejects objects for the reasons in package store, and with [ErrSecret] and [ErrKeyTooLong].
package persist
