package series

// Lister reads an Indexer. It is FooLister of the sample controller, whose informer and lister share
// one Indexer. Because it has no method that writes, its users cannot break the implied contract of
// part 3.
//
// Library: Informer.Cache, which is a store.View.
type Lister[T Object] struct{ indexer *Indexer[T] }

// NewLister is NewFooLister(informer.GetIndexer()).
func NewLister[T Object](indexer *Indexer[T]) Lister[T] { return Lister[T]{indexer} }

// Get returns the object with a key. The caller must not change it: it is the object of the Indexer.
func (l Lister[T]) Get(key string) (T, bool) { return l.indexer.GetByKey(key) }

// List returns the objects of a namespace, or all of them if it is empty.
func (l Lister[T]) List(namespace string) (objects []T) {
	for _, object := range l.indexer.List() {
		if namespace == "" || object.GetNamespace() == namespace {
			objects = append(objects, object)
		}
	}
	return objects
}

// ByIndex returns the objects with a value of the index.
func (l Lister[T]) ByIndex(value string) []T { return l.indexer.ByIndex(value) }

// NewIndexerInformer is NewInformer with an Indexer as its Store, which it shares with the Lister.
func NewIndexerInformer[T Object](source ListerWatcher[T], valuesOf IndexFunc[T], handler Handler[T]) (Lister[T], Controller[T]) {
	indexer := NewIndexer(valuesOf)
	process := Track(indexer, func(event Event[T]) { Deliver(handler, event) })
	return NewLister(indexer), NewController(Config[T]{source, NewEventQueueCollection(indexer), process})
}
