// Package record writes what an API server answers to a program into a file, and answers a program
// from such a file, so that a failure of production becomes a test.
//
// A [Recorder] is a transport around that of any [rest.Config]. It records the requests of all
// clients of that config, whether they are those of this module, of client-go or of
// controller-runtime:
//
//	recorder := record.NewRecorder(file)
//	config.Wrap(recorder.Wrap)
//	...                    // the program
//	err := recorder.Close() // why the recording is not complete, or nil
//
// A [Replay] is the transport of a config without a server. The same program, with the same set-up,
// receives the same answers and events at the same times after its first request:
//
//	replay, err := record.NewReplay(file)
//	config := replay.Config()
//
// In a testing/synctest bubble, hours of a recording take no time.
//
// The guarantees reflector-R9 and reflector-R10 are about this package.
//
// # What is recorded
//
// A recording has lists, watches with their events, reads of single objects, and discovery, each
// with its time, and failures of all of them. Writes and subresources, such as logs, pass the
// recorder without a trace, and a replay refuses them with [ErrNotRecorded]. The recorder asks the
// server for JSON, also if the client would rather have protobuf, because it masks the data of
// Secrets: see [Recorder].
//
// # Code
//
// recorder.go has the transport, its buffer, and what the buffer's goroutine makes of the bytes.
// recording.go has the format of the file, and what counts as the same request. replay.go says how a
// request finds its answer, and how the answer arrives in time.
package record
