// Package factory has the informer factories of client-go, over informers of this module. It has the
// names of package informers of client-go, so a program changes one import:
//
//	import informers "github.com/kubereflector/kubereflector/informer/clientgo/factory"
//
//	factory := informers.NewSharedInformerFactoryWithOptions(clientset, time.Hour, informers.WithNamespace("shop"))
//	pods := factory.Core().V1().Pods()
//	pods.Informer().AddEventHandler(handler)
//	factory.StartWithContext(ctx)
//	factory.WaitForCacheSyncWithContext(ctx)
//
// Packages dynamicinformer and metadatainformer beside it do the same for the dynamic and the metadata
// client.
//
// # Guarantees
//
//   - factory-F1: Each kind has one informer, whoever asks for it and how often.
//   - factory-F2: Start, WaitForCacheSync and Shutdown behave as in client-go: client-go's own
//     factory runs the informers.
//   - factory-F3: A clientset that is not exactly a *kubernetes.Clientset sends all requests itself,
//     so a fake or a wrapper sees each of them.
//
// # Decoding
//
// With a *kubernetes.Clientset the informers decode the server's responses themselves, with the
// HTTP client of the clientset, its rate limiter, its handler of warnings, its content types and its host. With any other clientset, and for
// kinds without namespaces in a factory with a namespace, the generated methods List and Watch
// decode, which costs what it costs in client-go. Objects that the informers decode share equal
// parts: see client.WithoutInterning. A transform gets a copy; what it does not change is shared all the same.
//
// # What is different
//
// The differences of package clientgo apply. An informer that code makes itself and passes to
// InformerFor is used as it is, because the code may have kept it: make it with package clientgo for an
// informer of this module. The options of package clientgo need such an informer, too. The method of
// an API group that client-go 0.36 lacks, which in 0.37 is Lifecycle, makes client-go's informers; ForResource makes ours.
//
// The generated informers of client-go have no public access to their parts, nor has a clientset to its
// content types and its handler of warnings, so this package reads unexported fields of them. In a version of client-go that
// has other fields, client-go's informers run, or the generated methods decode, and a line of klog says so.
// Versions 0.36 and 0.37 are tested, and a pre-release of 0.38.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use.
package factory
