package reflector

import (
	"maps"
	"slices"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// staging collects the objects of a list or of a watch-list until it is complete.
type staging[T Object] struct {
	to store.Store[T]
	// gathering has the objects, in the form in which the store gathers them; nil before the first.
	gathering store.Stage[T]
	over      error // why the store ended the list; nil if it did not
	put       int   // how many it was given
	taken     int   // how many of them it was to drop
	// places says which numbers the objects of a watch-list have, since later events of it
	// can change and delete them. Lists need none.
	places map[store.Key]int
	// lacking is what could not be decoded, by key.
	lacking map[store.Key]store.Rejection
	// unchanged is what the store holds as it is. Of a watch-list it may also have what
	// is among the objects, or was deleted since: see gone.
	unchanged []store.Key
	gone      map[store.Key]bool
	// nameless is what could not be decoded and has no key. The store finds what it
	// holds of it by UID.
	nameless []store.Rejection
	newest   witness // of the objects
}

func (s *staging[T]) discard() {
	if s.gathering != nil {
		s.gathering.Discard()
	}
	*s = staging[T]{to: s.to}
}

// add takes an object, and returns its number.
func (s *staging[T]) add(object T) int {
	if s.gathering == nil {
		s.gathering = store.StageOf(s.to)
	}
	s.newest.list(object)
	if err := s.gathering.Put(object, store.Identity{}); err != nil {
		s.over = err
	}
	s.put++
	return s.put - 1
}

// drop takes back the object of a number.
func (s *staging[T]) drop(number int) {
	s.gathering.Drop(number)
	s.taken++
}

// shrink takes back what came after so many objects.
func (s *staging[T]) shrink(to int) {
	for number := to; number < s.put; number++ {
		s.drop(number)
	}
}

// keep adds a page of a list, but for the items that were added while it came.
func (s *staging[T]) keep(p page[T]) {
	for _, r := range p.lacking {
		s.lack(watch.Added, r)
	}
	for i, object := range p.items {
		s.add(object)
		var none T
		p.items[i] = none // the stage may have made something smaller of it
	}
	s.unchanged = append(s.unchanged, p.unchanged...)
}

// take applies an event of a watch-list.
func (s *staging[T]) take(e event[T]) {
	switch {
	case e.departed != nil:
		delete(s.lacking, e.departed.key)
		s.remove(e.departed.key)
	case e.foreign > 0:
	case e.unchanged != nil:
		for _, key := range e.unchanged {
			s.unstage(key)
			delete(s.lacking, key)
			delete(s.gone, key)
		}
		s.unchanged = append(s.unchanged, e.unchanged...)
	case e.lacking != nil:
		s.lack(e.kind, *e.lacking)
	default:
		s.stage(e.kind, e.object)
	}
}

// stage applies an event of a watch-list. Objects without a name have no place: the
// store will say what it thinks of them.
func (s *staging[T]) stage(event watch.EventType, object T) {
	key := store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	delete(s.lacking, key)
	delete(s.gone, key)
	if event == watch.Deleted {
		s.remove(key)
		return
	}
	s.unstage(key)
	number := s.add(object)
	if key.Name == "" {
		return
	}
	if s.places == nil {
		s.places = make(map[store.Key]int)
	}
	s.places[key] = number
}

// remove applies a deletion.
func (s *staging[T]) remove(key store.Key) {
	s.unstage(key)
	if len(s.unchanged) > 0 {
		if s.gone == nil {
			s.gone = make(map[store.Key]bool)
		}
		s.gone[key] = true
	}
}

// unstage drops the object of a key, if there is one.
func (s *staging[T]) unstage(key store.Key) {
	if number, known := s.places[key]; known {
		s.drop(number)
		delete(s.places, key)
	}
}

// lack applies an event whose object could not be decoded. What is staged of the object
// is left: it is older, and better than nothing.
// Of one without a name nobody knows which it is, also if it was deleted.
func (s *staging[T]) lack(event watch.EventType, r store.Rejection) {
	s.newest.clear() // it may be an older state of the same object
	if r.Key.Name == "" {
		if r.Version.UID == "" && len(s.nameless) >= mostDetailed {
			return // the store could not keep anything for it
		}
		r.Key = store.Key{}
		s.nameless = append(s.nameless, r)
		return
	}
	if event == watch.Deleted {
		delete(s.lacking, r.Key)
		s.remove(r.Key)
		return
	}
	if s.lacking == nil {
		s.lacking = make(map[store.Key]store.Rejection)
	}
	s.lacking[r.Key] = r
}

// size returns how many objects came.
func (s *staging[T]) size() int {
	return s.put - s.taken + len(s.lacking) + len(s.nameless) + len(s.unchanged)
}

// inOrder returns what is rejected in the order of keys. It is not inlined where somebody has a
// reflector, since it would be compiled there once more.
//
//go:noinline
func inOrder(all map[store.Key]store.Rejection) []store.Rejection {
	return slices.SortedFunc(maps.Values(all), func(a, b store.Rejection) int { return a.Key.Compare(b.Key) })
}

// replace gives the store what is staged.
func (s *staging[T]) replace(version string) error {
	lacking := append(inOrder(s.lacking), s.nameless...)
	if len(s.gone) > 0 {
		s.unchanged = slices.DeleteFunc(s.unchanged, func(key store.Key) bool { return s.gone[key] })
	}
	if s.gathering == nil {
		s.gathering = store.StageOf(s.to)
	}
	return s.gathering.Commit(store.Listing[T]{Unchanged: s.unchanged, Lacking: lacking, ResourceVersion: version})
}
