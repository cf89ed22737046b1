// Package decode turns an object's bytes into a T. T is a pointer to a struct that needs only JSON
// tags, and for protobuf a generated Unmarshal method.
//
// Make one [Codec] for a T and its options. Make a [Decoder] from it for each goroutine that
// decodes.
//
// # JSON
//
// Decoding accepts the same input, with the same result, as sigs.k8s.io/json, which API servers and
// clients use:
//
//   - Names must match in case, and unknown members are ignored.
//   - Numbers without a point become int64 where the Go type is any.
//   - Every occurrence of a repeated name takes effect.
//   - Invalid UTF-8 is replaced.
//
// A test compares both on objects of every type of client-go's scheme, and a fuzz test on damaged
// objects. The exceptions:
//
//   - The texts and types of errors differ. If decoding fails, this package returns no partial
//     object.
//
// This package walks an object as API servers write it: without whitespace, each member once. It
// validates the members that T has no field for, and decodes nothing of them. It leaves few values
// to github.com/go-json-experiment/json: those of rare types, such as arrays, maps with numbers as
// keys, and structs with embedded pointers. If an object has an unusual form, that library decodes
// the whole object without sharing. This package walks only valid objects, so the library decides
// which input is accepted, and which error it gets.
//
// If T has a struct tag that github.com/go-json-experiment/json refuses or interprets differently,
// this package uses apimachinery's json package instead, which is slower.
//
// An Unstructured gets all members of an object. The object may be without a kind, as items of
// lists are, which Unstructured's own method refuses.
//
// # Protobuf
//
// This package walks messages of types in modules of Kubernetes by the numbers in their tags, and
// ignores unknown fields. If a message has an unusual form, such as a field that comes twice, the
// generated Unmarshal method decodes the whole object. That method also decodes messages of other
// modules, and without sharing. Tests compare the results for objects of every type of client-go's
// scheme.
//
// # Sharing
//
// Objects of one kind contain equal values: labels, resource requirements, environments. The
// decoder looks up a value of one of these types by its bytes. If the same bytes came before, the
// object gets the value that was decoded then. So two objects may share a map, slice or pointer,
// and decoded objects must not be edited in place. A DeepCopy may be edited. append to a shared
// slice is safe, because shared slices have no spare capacity.
//
// Each field has its own table in each decoder. A table holds a bounded number of bytes and values,
// and all tables of a decoder hold about 4 MiB of bytes.
// If few of the bytes that were looked up were found, the decoder empties the table and uses it
// less and less often. Other tables are not affected: annotations may be unique while labels
// repeat. Objects and arrays inside of any have a table for each name of a member, where 64 tables
// serve all names.
//
// # Depth
//
// A type whose messages may contain themselves, such as a CustomResourceDefinition, is decoded from JSON
// only. Generated methods recurse without a limit, and a stack overflow ends the process; the limit of JSON
// is 10,000 levels.
//
// # Strings
//
// Short, equal strings share memory as far as a decoder remembers them: it remembers a thousand.
// Strings that a type's own method makes are not among them.
//
// # Concurrency
//
// A Codec is safe for concurrent use. A Decoder belongs to one goroutine at a time. Its results
// refer to no bytes of its input. A type outside of Kubernetes and the standard library that
// decodes itself gets a copy of its bytes, so its methods may keep their argument.
package decode
