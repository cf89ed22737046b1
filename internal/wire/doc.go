// Package wire cuts the bodies of an API server's answers into objects, without decoding
// them: the events of a watch, the items of a list, and from an object's bytes the little
// that says which object it is.
//
// # What is promised
//
//   - Bytes are cut in the order in which they came, by one goroutine. What is cut is handed
//     over in a [Batch], which is as large as what has arrived and never waits for more: an
//     event that comes alone is alone in its batch.
//   - A body is never held as a whole: only the frames of the batches that were not released,
//     and at most one frame that has not arrived completely.
//   - Nothing is guessed. A body that ends within a frame is [ErrTruncated], one that is not of
//     the format [ErrMalformed], one with more bytes in a frame or between two frames than
//     the limit allows [ErrTooLarge]: a value without an end, too. All come in an [*Error] with the
//     place and the first bytes of the body, after all frames before it.
//   - A frame costs as much in small pieces as at once: no byte is scanned again for each piece.
//   - Objects are cut, not validated: whoever decodes them finds what is wrong inside. What is
//     not handed over, such as a list's metadata, is validated here.
//
// # Formats
//
// JSON events stand one after the other with or without whitespace between them. A line that
// begins and ends as those of API servers do is cut without looking inside; if its object then
// turns out to be no JSON, [Frame.Recut] says what the line really holds. Protobuf events have
// four bytes of length before them. CBOR events stand one after the other; [AppendJSON]
// makes JSON of their objects, for those who decode them.
//
// # Peek
//
// [Peek] reads identities from undecoded objects. It says false whenever it is not sure. What
// it says of an object that decodes is what decoding says, except for a JSON object that
// repeats a name: Peek stops at the first, decoding takes the last. API servers repeat none.
//
// # Concurrency
//
// A [Watch] or [List] belongs to one goroutine. A [Batch] belongs to whoever got it and may
// be released from anywhere. Peek is safe for concurrent use.
package wire
