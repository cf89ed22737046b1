// Package wire cuts the response bodies of an API server into objects without decoding them: the
// events of a watch, and the items of a list. It also reads an object's identity from its bytes.
//
// # What is promised
//
//   - One goroutine cuts the bytes in the order of their arrival. It hands frames over in a
//     [Batch]. A batch contains the frames that have arrived and never waits for more: a single
//     event is a batch of one frame.
//   - A body is never held as a whole. Memory holds only the frames of unreleased batches, and at
//     most one incomplete frame.
//   - The package guesses nothing. A body that ends within a frame is [ErrTruncated]. A body in
//     another format is [ErrMalformed]. If a frame, or the space between two frames, exceeds the
//     limit, the error is [ErrTooLarge]: a value without an end, too. Each error says at which byte, and
//     follows all frames before it.
//   - A frame costs the same in small pieces as at once: no byte is scanned again for each piece.
//   - Objects are cut, not validated: the decoder finds errors inside. The package itself validates
//     the parts that it does not hand over, such as a list's metadata.
//
// # Formats
//
// JSON events follow each other with or without whitespace between them. If a line begins and ends
// as API servers write it, the line is cut without a scan of its inside. If its object then turns
// out to be invalid JSON, [Frame.Recut] cuts the line again with a full scan. Protobuf events have
// four bytes of length before them.
//
// # Peek
//
// [Peek] reads identities from undecoded objects. It returns false whenever it is not sure. For an
// object that decodes, Peek and the decoder agree, except for a JSON object that repeats a name:
// Peek stops at the first, decoding takes the last. API servers repeat no names.
//
// # Concurrency
//
// A [Watch] or [List] belongs to one goroutine. A [Batch] belongs to its receiver and may be
// released from any goroutine. Peek is safe for concurrent use.
package wire
