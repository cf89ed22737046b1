// Package compact keeps objects in little memory: encoded, compressed with a dictionary
// that is learned from them, and decoded when they are read.
//
// # Who uses it
//
// A program whose cache is large and whose reads are few: whose handlers look at keys and
// index values, or at one object in a while. A [Store] takes the place of a [store.Cache]
// behind a reflector:
//
//	pods := compact.New(store.ObjectKey[*corev1.Pod])
//	err := reflector.New(client, pods).Run(ctx)
//	...
//	pod, ok := pods.Get(key)
//
// An informer, a collection of event queues or anything else that stands on a cache has
// packed objects instead, and decodes those that it looks at:
//
//	packer := compact.NewPacker(store.ObjectKey[*corev1.Pod])
//	pods := informer.NewTransformed(client, packer.Pack, compact.Key)
//	pods.Handle(informer.HandlerFuncs[*compact.Packed[*corev1.Pod]]{
//		OnAdd: func(packed *compact.Packed[*corev1.Pod], initial bool) { pod := packed.Object() ... },
//	})
//
// It is the wrong choice where most objects are read again and again, for walks of
// everything that have to be quick, and for objects that repeat nothing, such as
// certificates. docs/memory.md has figures.
//
// # What is kept
//
// Of a T with generated protobuf methods, such as the types of k8s.io/api, what they write,
// and its kind and apiVersion. Of any other pointer to a struct, its JSON. In both cases
// that is what an API server would return, as far as T has fields for it: what T does not
// know was lost when T was decoded. *unstructured.Unstructured keeps all fields.
//
// An object that is read is equal to the one that was written in the way in which two reads
// from a server are: times have whole seconds where the API's have, an empty list may be
// nil, and a number in an Unstructured that is a whole one is an int64. Fields that are not
// written, such as unexported ones, are not kept.
//
// # Guarantees
//
//   - C1. A [Store] is a [store.Store], with batches, and a [store.Reader]: all that
//     package store promises holds for it, but for what is said below of pointers.
//   - C2. What was stored can be read. An object that cannot be encoded, or whose JSON
//     cannot be decoded again, is rejected when it is written.
//   - C3. The number of objects that are kept decoded is bounded: see [WithRecent]. As long
//     as one is, every read returns the same pointer, which store-S9 asks for; later reads return
//     another one.
//   - C4. Index values are found when an object is written, or comes in a list. A [Store]
//     decodes nothing for them.
//   - C5. An object can be read with the dictionary that it was packed with, however many
//     were learned since. No more than eight are in use at once, beside none.
//   - C6. A reflector's list is packed object by object as it comes, so that of the objects
//     themselves there are no more at a time than C3 says and those that are being decoded.
//
// # Learning
//
// The dictionary is made of what many of 64 objects have in common. That happens after the
// first 16 objects, then after 128 and 1,024 more, and then after each 4,096, and the new one
// is taken if it saves a tenth of what the old one needs. Objects are not packed anew for
// it. To learn takes some ten milliseconds, of the goroutine that writes.
//
// # Followers
//
// What follows a [Store.Cache] is told of packed objects, prior ones as well: a queue of
// events is small, and each of its objects is decoded if and when somebody asks. That may
// be the last state of an object which is not in the cache any more.
//
// # Concurrency
//
// Everything may be called from any goroutine. Objects are shared between those who read
// them and are read-only, as with any cache. Decoding happens outside of all locks, in the
// goroutine that reads.
//
// # Errors
//
// Rejections are those of [store.RejectedError]; their causes are [ErrNoStruct], a
// [DecodeError] for an object in JSON that cannot be decoded again, what the encoder
// returned, and those of package store. A read has no error to return: if what was packed
// by generated methods cannot be decoded by them, it panics with a [*DecodeError].
package compact
