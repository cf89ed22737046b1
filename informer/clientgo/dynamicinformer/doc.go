// Package dynamicinformer has the factory of dynamic informers of client-go, over informers of this
// module. It has the names of package dynamic/dynamicinformer of client-go, so a program changes one import:
//
//	import "github.com/kubereflector/kubereflector/informer/clientgo/dynamicinformer"
//
//	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, time.Hour)
//	widgets := factory.ForResource(widgets).Lister()
//	factory.Start(ctx.Done())
//
// The dynamic client sends the requests and decodes the objects, which costs what it costs in
// client-go. The informers bring their caches, their queues and their handling of errors, and the
// differences of package clientgo. The factories have StartWithContext, which client-go's interface
// has since 0.38; with an older client-go a type assertion finds it.
//
// All functions and methods are safe for concurrent use.
package dynamicinformer
