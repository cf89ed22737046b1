package factory

import (
	"reflect"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// parts are what client-go made an informer of. A generated informer has no method that returns its
// ListerWatcher, and a list of all kinds here would be that of one version of client-go.
type parts struct {
	from        cache.ListerWatcher
	example     runtime.Object
	description string
	identifier  cache.InformerNameAndResource
	metrics     cache.InformerMetricsProvider
	resync      time.Duration
	transform   cache.TransformFunc
	failed      cache.WatchErrorHandlerWithContext
}

var plain = reflect.TypeOf(cache.NewSharedIndexInformer(nil, nil, 0, nil))

// partsOf returns the parts of an informer of client-go, and false for any other informer, for an
// informer that has handlers, or if client-go's informer has no longer the fields that it has in
// 0.36 to 0.38.
func partsOf(informer cache.SharedIndexInformer) (p parts, ok bool) {
	of := reflect.ValueOf(informer)
	for of.Kind() == reflect.Pointer && !of.IsNil() && of.Type() != plain && of.Type().Elem().PkgPath() == plain.Elem().PkgPath() {
		// Generated informers of client-go 0.37 are in structs that add typed methods.
		if !read(of.Elem(), "SharedIndexInformer", &informer) {
			return p, false
		}
		of = reflect.ValueOf(informer)
	}
	if !of.IsValid() || of.Type() != plain || of.IsNil() {
		return p, false
	}
	ok = read(of.Elem(), "listerWatcher", &p.from) && read(of.Elem(), "objectType", &p.example) &&
		read(of.Elem(), "objectDescription", &p.description) && read(of.Elem(), "identifier", &p.identifier) &&
		read(of.Elem(), "informerMetricsProvider", &p.metrics) && read(of.Elem(), "defaultEventHandlerResyncPeriod", &p.resync) &&
		read(of.Elem(), "transform", &p.transform) && read(of.Elem(), "watchErrorHandler", &p.failed)
	return p, ok && p.from != nil && p.example != nil && !hasHandlers(of.Elem().FieldByName("processor"))
}

// hasHandlers reports whether handlers were added, or may have been.
func hasHandlers(processor reflect.Value) bool {
	if processor.Kind() != reflect.Pointer || processor.IsNil() {
		return true
	}
	listeners := processor.Elem().FieldByName("listeners")
	return listeners.Kind() != reflect.Map || listeners.Len() > 0
}

// read copies an unexported field.
func read[F any](of reflect.Value, name string, into *F) bool {
	field := of.FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[F]() {
		return false
	}
	*into = *(*F)(unsafe.Pointer(field.UnsafeAddr()))
	return true
}

// options returns the options of an informer in place of the one with the parts.
func (p parts) options(informer cache.SharedIndexInformer) cache.SharedIndexInformerOptions {
	return cache.SharedIndexInformerOptions{
		ResyncPeriod: p.resync, Indexers: informer.GetIndexer().GetIndexers(), ObjectDescription: p.description,
		Identifier: p.identifier, InformerMetricsProvider: p.metrics,
	}
}
