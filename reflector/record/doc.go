// Package record writes the answers that a reflector receives to a file, and replays them.
//
// [Client] puts a [Recorder] in front of any client. [NewReplay] makes a client from the file, so
// that a failure of production becomes a test:
//
//	pods := informer.New(record.Client(clientset.CoreV1().Pods("default"), record.NewRecorder(file)))
//	...
//	replay, err := record.NewReplay[*corev1.Pod](file)
//	r := reflector.New(replay, store.New(store.ObjectKey[*corev1.Pod]))
//
// Both are sources in front of other sources, so reflectors and informers work with them as with
// every client. The guarantees reflector-R9 and reflector-R10 are about them.
package record
