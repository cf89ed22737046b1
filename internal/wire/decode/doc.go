// Package decode turns an object's bytes into a T: a pointer to a struct that needs nothing
// but JSON tags, and for protobuf a generated Unmarshal method.
//
// A [Codec] is made once for a T and its options; a [Decoder] of it is made for each
// goroutine that decodes.
//
// # JSON
//
// What is accepted, and what comes of it, is as with sigs.k8s.io/json, which API servers and
// clients use: names must match in case, unknown members are ignored, numbers without a
// point become int64 where the Go type is any, a name that is repeated counts as often as it
// comes, and invalid UTF-8 is replaced. A test compares both on objects of every type of
// client-go's scheme, and a fuzz test on damaged ones. The exceptions:
//
//   - The texts and types of errors differ, and so does what is left of an object that is
//     refused: nothing is returned here.
//
// An object as API servers write it is walked by this package: structs, slices, pointers, plain
// strings and numbers, and maps of strings or quantities. What is not of the plainest kind in it is left to
// github.com/go-json-experiment/json, value by value; and if anything is unusual, such as
// whitespace between members, or a member that comes twice, so is the object. What this package
// walks is valid, so the library decides what is accepted, and what an error says.
//
// If T has a struct tag that github.com/go-json-experiment/json refuses or understands in another
// way, apimachinery's json package takes its place, which is slower.
//
// # CBOR
//
// It is decoded as the JSON that the server would have sent. apimachinery's decoder for it
// refuses unknown members, and types that decode themselves from JSON only.
//
// # Sharing
//
// Objects of one kind repeat each other: labels, resource requirements, environments. A value
// of one of these types is looked up by its bytes; if the same bytes came before, the object
// gets the value that was decoded then. So values of two objects may be the same map, slice or
// pointer: decoded objects must not be edited in place. A DeepCopy may be, and so may what
// append makes of a slice: shared ones have no capacity to spare.
//
// Each type has a table of its own in each decoder, and one more for values that the library
// decodes. It holds a bounded number of bytes and values, and is emptied and asked more and more
// seldom when little of what it is asked for is in it. A value that repeats a name or a field is never shared.
//
// # Depth
//
// A protobuf object whose messages are more than 5,000 deep is refused with [ErrTooDeep]: generated
// methods recurse, and a stack overflow ends the process. JSON may be 10,000 deep, CBOR 256.
//
// # Strings
//
// Strings of JSON that are equal and short have the same memory, as far as a decoder remembers: it
// has places for a thousand. That is done where strings are made here. It is not done for
// protobuf: generated methods make the strings themselves, so another pass over the finished
// object would have to find and replace them, at a tenth to a third of what decoding takes; most
// of what it would find is shared as a whole already.
//
// # Concurrency
//
// A Codec is safe for concurrent use. A Decoder belongs to one goroutine at a time. What it
// returns holds nothing of the bytes that it was given. Methods of T that keep their argument keep a
// copy: it is made for types outside of Kubernetes and the standard library that decode themselves.
package decode
