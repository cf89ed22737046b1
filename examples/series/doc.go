// Package series is the blog series "Understanding Kubernetes' tools/cache package" as code. Each
// concept of the series is one small type here, without what a production library needs besides. So
// the package is for reading, beside the series and its pages in docs/series, and not for programs:
// use the library.
//
// The types have the names of the series. They behave as client-go 6.0, which the series reads, and
// as the Java outcome of the series, with their weaknesses. Each test shows such a weakness, and then
// how the library's type behaves in the same situation:
//
//	go test ./examples/series -v
//
// # Contents
//
//	part  file                     types                            test
//	0     part00_message.go        Object, Listen                   part00_test.go
//	1     part01_listerwatcher.go  ListerWatcher, Client            part01_test.go
//	      part01_store.go          Store, ReflectorStore, Reader,
//	                               Map
//	      part01_reflector.go      KubernetesResourceReflector
//	2     part02_controller.go     Controller, Config               part02_test.go
//	3     part03_controller.go     Queue, controller, processLoop   part03_test.go
//	      part03_informer.go       NewInformer, Handler
//	4     part04_eventqueue.go     Event, EventQueue                part04_test.go
//	      part04_collection.go     EventQueueCollection
//	      part04_replace.go        its Replace and Resync
//	5     picture/main.go          all of them, put together        part05_test.go
//	6     part06_listener.go       processorListener                part06_test.go
//	      part06_distributor.go    Distributor
//	7     part07_track.go          Track                            part07_test.go
//	      part07_sharedinformer.go SharedInformer
//	8                              its goroutines                   part08_test.go
//	9     part09_javareflector.go  JavaReflector, EventCache        part09_test.go
//	10    part10_observe.go        Observe                          part10_test.go
//	11    part11_pairing.go        Container                        part11_test.go
//
// Left out are indexes, periods of resyncs, transformations, and the detector of changed objects.
package series
