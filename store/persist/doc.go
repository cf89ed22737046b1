// Package persist has a [store.Cache] with a file behind it: what a process held is
// served by the next one at once, and its reflector goes on watching from there
// instead of listing everything again.
//
// # Usage
//
//	pods, err := persist.Open("/var/cache/my-controller/pods", store.ObjectKey[*corev1.Pod], persist.Options[*corev1.Pod]{
//		Resource: "pods",
//		Cluster:  string(kubeSystem.UID), // of the namespace kube-system
//	})
//	...
//	defer pods.Close()
//	informer := informer.New(clientset.CoreV1().Pods(""), informer.WithStore(pods))
//	err = informer.Run(ctx) // writes the file, too
//
// Without an informer, give the [Store] to a reflector, and let [Store.Run] write
// while that runs. Both resume by themselves: from the version that the store has, or,
// if the server does not know that any more, by a list, of which only the differences
// are changes.
//
// An informer of several scopes goes on where each of them was. A scope that the file
// has and the program does not want any more stays until [Store.Drop]; until then a
// program without scopes, or with one that overlaps it, has a [*ScopesError].
//
// A program that has no place for Run calls [Store.Flush] when it likes. What comes
// until then is kept in memory, up to [Options].MaxUnwritten: the write that goes
// beyond it writes the file itself, before it returns. If that fails, it is Flush and Close
// that try again, and nobody else: until one succeeds, what comes is kept in memory
// without a bound.
//
// # Reading
//
// All reads are from memory, and are those of the cache: indexes, snapshots, waiting,
// and followers of [Store.Cache]. Until the server was heard of, they answer what was
// so when the file was written last: [State].Stale says so. A server that accepts a
// watch has been heard of, also if it says afterwards that it lacks the history. A
// follower that comes before is told of these objects as the state that it starts
// with, and of what happened while nobody was there as changes: what is gone is a
// deletion.
//
// # Guarantees
//
//   - P1. The file holds a state that the store had, with the resource versions of
//     that state, whenever the process ends: each transaction has all that some whole
//     commits changed, and where they led to. Only P8 takes something from that.
//   - P2. What is read from a file is what was written. All of it has checksums, and is
//     compared with them before it is served.
//   - P3. When a process is killed, the file lacks the latest changes at most: while
//     Run runs, those of the last Delay and of the time that two transactions take;
//     and never more than MaxUnwritten bytes of them and one commit, because who
//     writes waits. The watch that begins at the file's version replays them.
//   - P4. A file that is damaged, or of something else, is an error that says so, and
//     is not changed.
//   - P5. A file that cannot be written stops nothing: the store works from memory,
//     and the error hook and [State].Lasting say so. What is lacking is written as
//     soon as that is possible, if Run runs, and else by Flush or Close. A file that
//     was deleted or replaced cannot be written ([ErrReplaced]): whoever writes notices.
//   - P6. No Secret gets into a file unless AllowSecrets says so.
//   - P7. Nothing is done in the background but by Run.
//   - P8. An object that cannot be encoded stops no other: the error hook and
//     [State].Lacking say so. The file has its last state that could be encoded, or
//     none, and no version for the scope that it is in until that changes, so that the
//     next process lists the scope and finds what differs. It is tried again when it
//     changes, by Flush, and by what ends Run and Close.
//
// A machine that loses power keeps P1 as far as its disk does what fsync asks for.
//
// The file is read through a mapping. If the disk fails while it is opened, that is
// [ErrDamaged]. If it fails later, when a transaction looks for where to write, the system
// ends the process, as it does if somebody else shortens the file then.
//
// # What is not in a file
//
// Indexes are computed anew, so add them before there are many readers. What the
// cache lacks, because it had to reject it, is not noted: the version stays before
// it, so that a watch tells it again, with some of what came after.
//
// # The file
//
// One file of go.etcd.io/bbolt for each store: etcd keeps its own data in it, it has
// atomic transactions and a lock, is written in Go alone, and starts no goroutines.
// cockroachdb/pebble, a log-structured tree, takes more writes a second; but this file
// is written about once a second and read once, and pebble is a directory with
// compactions in the background and many times the code. The file grows to the size of
// what it holds, with a transaction beside it, and does not shrink: the room is used
// again.
//
// It is readable by its owner alone, and in clear text. It may be deleted while no store
// has it open: everything is then listed anew. The permissions of one that exists are
// not changed.
//
// Objects are written as protobuf if their type is one of k8s.io/api, and else as
// JSON; see [Codec]. A program whose type has changed so that it cannot decode an
// object gets [ErrUndecodable]. One whose type has got new fields reads them as empty
// until the object changes: give Resource another name then.
//
// # Secrets
//
// Open refuses *corev1.Secret and resources by the name of secrets with [ErrSecret],
// and a store of a type without a kind of its own, such as unstructured.Unstructured,
// rejects each object whose kind is Secret. The items of a list do not say their kind, and
// metadata says only that it is that: without a Resource they are rejected with
// [ErrKindUnknown], with one they are what that says. What a Transform has made of a Secret,
// nobody can tell.
//
// # Concurrency
//
// All methods may be called from any goroutine. The cache is never locked while the
// file is written.
//
// # Errors
//
// What is wrong with a file is a [*FileError] with its path: [ErrForeign],
// [ErrDamaged], [ErrNewer], [ErrUndecodable], [ErrLocked], [ErrReplaced], a [*MismatchError], or
// what the system said. What cannot be encoded is an [*EncodeError] in one. Rejections are those of package store, with the causes
// [ErrSecret] and [ErrKeyTooLong].
package persist
