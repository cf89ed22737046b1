// Package series is the blog series "Understanding Kubernetes' tools/cache package" as code. Each
// concept of the series is one small type here, without what a production library needs besides. So
// the package is for reading, beside the series and its pages in docs/series, and not for programs:
// use the library.
//
// The types have the names of the series. They behave as client-go 6.0, which the series reads, or as
// the Java outcome of the series, with their weaknesses; where the two differ, the page of the part
// says whose a weakness is. Each test shows such a weakness, and then how the library's type behaves in
// the same situation:
//
//	go test ./examples/series -v
//
// # Contents
//
// A file is one sitting. Most files need only those of earlier parts. Four parts look ahead: part 0 uses
// the ListerWatcher of part 1; part 2 the queues of parts 3 and 4; part 3 those of part 4, and Track of
// part 7; and the program of part 5 Distributor of part 6 and Track.
//
//	part  file                      types                           test
//	0     part00_message.go         Object, Listen                  part00_test.go
//	1     part01_listerwatcher.go   ListerWatcher, Client           part01_test.go
//	      part01_store.go           Store, ReflectorStore, Reader,
//	                                Map
//	      part01_reflector.go       KubernetesResourceReflector
//	2     part02_controller.go      Controller, Config              part02_test.go
//	3     part03_controller.go      Queue, controller, processLoop  part03_test.go
//	      part03_informer.go        NewInformer, Handler
//	4     part04_eventqueue.go      Event, EventQueue               part04_test.go
//	      part04_collection.go      EventQueueCollection
//	      part04_replace.go         its Replace and Resync
//	5     picture/main.go           all of them, put together       picture/main_test.go,
//	                                                                part05_test.go
//	6     part06_listener.go        processorListener               part06_test.go
//	      part06_distributor.go     Distributor
//	7     part07_track.go           Track                           part07_test.go
//	      part07_sharedinformer.go  SharedInformer
//	8                               its goroutines                  part08_test.go
//	9     part09_javareflector.go   JavaReflector, EventCache       part09_test.go
//	10    part10_observe.go         Observe                         part10_test.go
//	11    part11_pairing.go         Container                       part11_test.go
//
// The tutorial about object stores and indexers, and the notes on Eddie Zaneski's talk, have more
// concepts:
//
//	file                 types                        test
//	text_watchevent.go   WatchEvent                   text_watchevent_test.go
//	watchbyhand/main.go  a program that reads them    watchbyhand/main_test.go
//	text_selector.go     Select                       text_selector_test.go
//	text_keyfunc.go      KeyFunc, KeyedStore          text_keyfunc_test.go
//	text_indexer.go      Indexer, IndexFunc           text_indexer_test.go
//	text_lister.go       Lister, NewIndexerInformer
//	text_workqueue.go    WorkQueue                    text_workqueue_test.go
//	text_flow.go         Flow, from a watch to a      text_flow_test.go
//	                     write, step by step
//	text_discovery.go    Mapping, DiscoveryCache      text_discovery_test.go
//
// Left out are periods of resyncs, transformations, and the detector of changed objects.
package series
