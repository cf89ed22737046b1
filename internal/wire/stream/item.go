package stream

import (
	"slices"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object is the metadata of a Kubernetes object, which the reflector needs.
type Object interface {
	metav1.Object
}

// Kind says what an [Item] brings. The kinds up to Outside are about objects: see Item.IsAboutObjects.
type Kind uint8

const (
	// Put is an object that exists: Write is for the store. If the object cannot be decoded, Write has
	// an error, and the key and version as far as they can be read.
	Put Kind = iota + 1
	// Delete is an object that was deleted: Write is for the store. If its last state cannot be
	// decoded, Write has only the key and the version. Why is in Err, and not in Write.Err, with which the
	// store would keep the object. The reflector does not report it: a deletion needs no last state.
	Delete
	// Unchanged are objects of a list, or of the beginning of a watch-list, that the store holds with
	// the same content: Keys has their keys.
	Unchanged
	// Outside are Count objects outside of the shards. Only the last one's Version, and the type of
	// Write, count.
	Outside
	// Mark is a bookmark.
	Mark
	// Failed means that the watch is unusable because of Err, which concerns the object under the key
	// of Write, if the key is known.
	Failed
	// Ended means that the connection broke because of Err, so that another watch can resume.
	Ended
)

// Item is what a [Source] delivers of a list or a watch. The reflector passes its Write to the store
// as it is.
type Item[T Object] struct {
	Kind    Kind
	Closing bool // Mark: the initial events of a watch-list are over
	Count   int  // Outside
	// Version is the resource version of the object or the bookmark; empty if it is not known.
	Version string
	Write   store.Write[T]
	Keys    []store.Key
	Err     error
}

// IsWrite reports whether Write is for the store.
func (i *Item[T]) IsWrite() bool { return i.Kind == Put || i.Kind == Delete }

// IsAboutObjects reports whether an item is about objects, changed or not.
func (i *Item[T]) IsAboutObjects() bool { return i.Kind <= Outside }

// isDecoded reports whether a Put or Delete has the object.
func (i *Item[T]) isDecoded() bool {
	return i.Write.Err == nil && (i.Kind == Put || i.Write.FinalStateKnown)
}

// Identity returns the key and the version of the object of a Put or Delete, as far as they are known.
func (i *Item[T]) Identity() (store.Key, store.Version) {
	if !i.isDecoded() {
		return i.Write.Key, i.Write.Version
	}
	object := i.Write.Object
	return store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}, store.VersionOf(object)
}

// Undecodable returns the item for an object that cannot be decoded because of err.
func Undecodable[T Object](change store.ChangeType, key store.Key, version store.Version, err error) Item[T] {
	i := Item[T]{Kind: Put, Version: version.ResourceVersion, Write: store.Write[T]{Type: change, Key: key, Version: version}}
	switch {
	case key.Name == "":
		// Only a list can show what changed, so the store's version must not pass this object.
		i.Write.Key, i.Write.Err = store.Key{}, err
	case change == store.Deletion:
		i.Kind, i.Err = Delete, err
	default:
		i.Write.Err = err
	}
	return i
}

// Filter replaces an item by one of the kind Outside if its object is outside of the shards.
func (i *Item[T]) Filter(s *Shards) {
	if s == nil || !i.IsWrite() {
		return
	}
	w, outside := &i.Write, false
	switch {
	case i.isDecoded():
		outside = !s.Has(w.Object)
	// The identity of an object that cannot be decoded tells only its shard by UID or by namespace.
	case s.By == store.ByUID:
		outside = w.Version.UID != "" && !s.Contains(store.ShardHash(string(w.Version.UID)))
	case s.By == store.ByNamespace:
		outside = w.Key.Name != "" && !s.Contains(store.ShardHash(w.Key.Namespace))
	}
	if outside {
		*i = Item[T]{Kind: Outside, Count: 1, Version: i.Version, Write: store.Write[T]{Type: w.Type}}
	}
}

// passOver appends an item for an object outside of the shards. Consecutive objects become one item.
func passOver[T Object](items *[]Item[T], change store.ChangeType, version string) {
	if n := len(*items); n > 0 {
		if last := &(*items)[n-1]; last.Kind == Outside && last.Write.Type == change {
			last.Count++
			last.Version = version
			return
		}
	}
	*items = append(*items, Item[T]{Kind: Outside, Count: 1, Version: version, Write: store.Write[T]{Type: change}})
}

// keep appends an item for the objects at the beginning of frames that the caller holds, and returns their
// number. It adds them to the item before, if that is one of such objects, too.
func keep[T Object](items *[]Item[T], frames []wire.Frame) (n int) {
	for n < len(frames) && frames[n].Held.Name != "" {
		n++
	}
	if n == 0 {
		return 0
	}
	if last := len(*items) - 1; last < 0 || (*items)[last].Kind != Unchanged {
		*items = append(*items, Item[T]{Kind: Unchanged, Write: store.Write[T]{Type: store.Addition}})
	}
	last := &(*items)[len(*items)-1]
	last.Keys = slices.Grow(last.Keys, n)
	for i := range frames[:n] {
		last.Keys = append(last.Keys, store.Key{Namespace: frames[i].Held.Namespace, Name: frames[i].Held.Name})
	}
	last.Version = frames[n-1].Held.ResourceVersion
	return n
}

// keepWhole keeps all objects of a batch, if the caller holds all of them, and releases the batch.
func keepWhole[T Object](items *[]Item[T], batch *wire.Batch) bool {
	for i := range batch.Frames {
		if batch.Frames[i].Held.Name == "" {
			return false
		}
	}
	keep(items, batch.Frames)
	batch.Release()
	return true
}
