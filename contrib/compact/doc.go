// Package compact keeps objects in little memory. It encodes each object, compresses it with a
// dictionary that it learns from the objects, and decodes it when a program reads it.
//
// # When to use it
//
// Use it in a program whose cache is large and whose reads are few. Its handlers look at keys and
// index values, or now and then at one object. A [Store] replaces a [store.Cache] behind a
// reflector:
//
//	pods := compact.New(store.ObjectKey[*corev1.Pod])
//	err := reflector.New(client, pods).Run(ctx)
//	...
//	pod, ok := pods.Get(key)
//
// An informer, a collection of event queues or any other user of a cache stores packed objects
// instead, and decodes an object when it needs it:
//
//	packer := compact.NewPacker(store.ObjectKey[*corev1.Pod])
//	pods := informer.NewTransformed(client, packer.Pack, compact.Key)
//	pods.Handle(informer.HandlerFuncs[*compact.Packed[*corev1.Pod]]{
//		OnAdd: func(packed *compact.Packed[*corev1.Pod], initial bool) { pod := packed.Object() ... },
//	})
//
// Do not use it if the program reads most objects again and again, or if iterations over all
// objects must be quick. It saves little for objects that have nothing in common, such as
// certificates. docs/memory.md has figures.
//
// # Encoding
//
// A T with generated protobuf methods, such as the types of k8s.io/api, is encoded by these
// methods, with its kind and apiVersion. Any other pointer to a struct is encoded as JSON. Both
// keep the fields that an API server would return and that T has. Fields that T does not have were
// lost when the client decoded T. *unstructured.Unstructured keeps all fields.
//
// A decoded object equals the written one as two reads from a server are equal. Times have whole
// seconds where the times of the API do. An empty list may become nil. An integer in an
// Unstructured becomes an int64. Fields without an encoding, such as unexported ones, are lost.
//
// # Guarantees
//
//   - compact-C1: A [Store] is a [store.Store], with batches, and a [store.Reader]. Every guarantee
//     of package store holds for it, apart from the limits on pointers below.
//   - compact-C2: Every stored object can be read. A write rejects an object that cannot be
//     encoded, or whose JSON cannot be decoded again.
//   - compact-C3: The number of decoded objects in memory is bounded: see [WithRecent]. While an
//     object is decoded, every read returns the same pointer, as store-S9 demands. Later reads
//     return another pointer.
//   - compact-C4: The index functions run when an object is written, or comes in a list. A [Store]
//     decodes nothing for them.
//   - compact-C5: An object stays readable with the dictionary that packed it, however many
//     dictionaries the packer learned since. The packer has at most eight dictionaries in use at
//     once, and packs without one at first.
//   - compact-C6: A [Store] packs a reflector's list object by object as it comes. So only the
//     decoded objects of compact-C3, and the objects that the reflector is decoding, are in memory
//     unpacked.
//
// Learning takes some ten milliseconds in the goroutine that writes. Older objects are not packed again.
//
// # Followers
//
// A follower of [Store.Cache] receives packed objects, prior ones as well. So a queue of events is
// small, and a consumer decodes an object only if it needs it. That object may be a last state that
// the cache no longer holds.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. Readers share objects and must not change
// them, as with any cache. The goroutine that reads decodes the object, outside of all locks.
//
// # Errors
//
// A [store.RejectedError] has the causes of package store. Further causes are [ErrNoStruct], the
// error of the encoder, and a [*DecodeError] for an object whose JSON cannot be decoded again. A
// read cannot return an error: if the generated methods cannot decode their own output, it panics
// with a [*DecodeError].
package compact
