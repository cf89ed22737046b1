// Package metadatainformer has the factory of metadata informers of client-go, over informers of this
// module. It has the names of package metadata/metadatainformer of client-go, so a program changes one
// import:
//
//	import "github.com/kubereflector/kubereflector/informer/clientgo/metadatainformer"
//
//	factory := metadatainformer.NewSharedInformerFactory(client, time.Hour)
//	pods := factory.ForResource(pods).Lister()
//	factory.Start(ctx.Done())
//
// The metadata client sends the requests and decodes the objects, which costs what it costs in
// client-go. The informers bring their caches, their queues and their handling of errors, and the
// differences of package clientgo. The factories have StartWithContext, as client-go's have, although
// its interface lacks it; a type assertion finds it.
//
// All functions and methods are safe for concurrent use.
package metadatainformer
