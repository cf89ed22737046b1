package reflector

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// apply gives the store the last events.
func (r *run[T]) apply() input {
	var err error
	if len(r.events) == 1 {
		err = r.applyOne(&r.events[0])
	} else {
		err = r.applyAll()
	}
	r.status.stored(r.store.ResourceVersion())
	r.witnessed()
	last := &r.events[len(r.events)-1]
	if err == nil {
		return input{kind: stored}
	}
	failure := r.newError(OpStore, last.version, err)
	if len(r.events) == 1 && last.kind != watch.Bookmark && last.lacking == nil && last.foreign == 0 && failure.Key == (store.Key{}) && last.object.GetName() != "" {
		failure.Key = store.Key{Namespace: last.object.GetNamespace(), Name: last.object.GetName()}
	}
	return input{kind: stored, err: failure}
}

func (r *run[T]) applyOne(e *event[T]) error {
	switch {
	case e.kind == watch.Bookmark:
		if e.version != "" {
			return r.store.Bookmark(e.version)
		}
	case e.foreign > 0:
		return r.applyForeign(e)
	case e.lacking != nil:
		return r.applyUndecoded(e)
	case e.unchanged != nil:
	case e.kind == watch.Added:
		return r.store.Add(e.object)
	case e.kind == watch.Modified:
		return r.store.Update(e.object)
	case e.kind == watch.Deleted:
		return r.store.Delete(e.object)
	}
	return nil
}

// applyAll makes one commit of several changes.
func (r *run[T]) applyAll() error {
	defer r.batch.Reset()
	for i := range r.events {
		switch e := &r.events[i]; {
		case e.foreign > 0:
			e.append(&r.batch)
		case e.lacking != nil:
			e.appendUndecoded(&r.batch)
		case e.unchanged != nil:
		case e.kind == watch.Added:
			r.batch.Add(e.object)
		case e.kind == watch.Modified:
			r.batch.Update(e.object)
		case e.kind == watch.Deleted:
			r.batch.Delete(e.object)
		}
	}
	if r.batch.Len() == 0 {
		return nil
	}
	return r.batches.Apply(&r.batch)
}

// applyForeign tells the store that something happened to others, and takes out what left the
// shards.
func (r *run[T]) applyForeign(e *event[T]) error {
	if e.departed == nil && e.version != "" {
		return r.store.Bookmark(e.version)
	}
	defer r.batch.Reset()
	e.append(&r.batch)
	return store.Batches(r.store).Apply(&r.batch)
}

// append appends what a foreign object means.
func (e *event[T]) append(to *store.Batch[T]) {
	switch d := e.departed; {
	case d != nil:
		to.Append(store.Write[T]{Type: store.WriteDeleteKey, Key: d.key, Version: d.version, Left: !d.gone})
	case e.version != "":
		to.Bookmark(e.version)
	}
}

// applyUndecoded tells the store of an object that could not be decoded.
func (r *run[T]) applyUndecoded(e *event[T]) error {
	defer r.batch.Reset()
	e.appendUndecoded(&r.batch)
	return store.Batches(r.store).Apply(&r.batch)
}

// appendUndecoded appends an object that could not be decoded. Of one that was deleted the name is
// enough. Without one, only a list can say what happened, so the store must not go past it.
func (e *event[T]) appendUndecoded(to *store.Batch[T]) {
	bad := *e.lacking
	switch {
	case bad.Key.Name == "":
		bad.Key = store.Key{}
		to.Lack(bad)
	case e.kind == watch.Deleted:
		to.Append(store.Write[T]{Type: store.WriteDeleteKey, Key: bad.Key, Version: bad.Version})
	default:
		to.Lack(bad)
	}
}
