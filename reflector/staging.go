package reflector

import (
	"maps"
	"slices"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// staging collects the objects of a list or of a watch-list until it is complete.
type staging[T Object] struct {
	objects []T
	// places says where the objects of a watch-list are, since later events of it
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
}

func (s *staging[T]) discard() { *s = staging[T]{} }

// keep adds a page of a list.
func (s *staging[T]) keep(p page[T]) {
	for _, r := range p.lacking {
		s.lack(watch.Added, r)
	}
	if s.objects == nil {
		s.objects = p.items
	} else {
		s.objects = append(s.objects, p.items...)
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
	place, known := s.places[key]
	switch {
	case event == watch.Deleted:
		s.remove(key)
	case known:
		s.objects[place] = object
	default:
		if s.places == nil {
			s.places = make(map[store.Key]int)
		}
		if key.Name != "" {
			s.places[key] = len(s.objects)
		}
		s.objects = append(s.objects, object)
	}
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

// unstage drops the object of a key, if there is one: the last one takes its place.
func (s *staging[T]) unstage(key store.Key) {
	place, known := s.places[key]
	if !known {
		return
	}
	last := len(s.objects) - 1
	moved := s.objects[last]
	s.objects[place] = moved
	if moved.GetName() != "" {
		s.places[store.Key{Namespace: moved.GetNamespace(), Name: moved.GetName()}] = place
	}
	s.objects = s.objects[:last]
	delete(s.places, key)
}

// lack applies an event whose object could not be decoded. What is staged of the object
// is left: it is older, and better than nothing.
// Of one without a name nobody knows which it is, also if it was deleted.
func (s *staging[T]) lack(event watch.EventType, r store.Rejection) {
	if r.Key.Name == "" {
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
	return len(s.objects) + len(s.lacking) + len(s.nameless) + len(s.unchanged)
}

// replace gives a store what is staged.
func (s *staging[T]) replace(to store.Store[T], version string) error {
	lacking := slices.SortedFunc(maps.Values(s.lacking), func(a, b store.Rejection) int { return a.Key.Compare(b.Key) })
	lacking = append(lacking, s.nameless...)
	if len(s.gone) > 0 {
		s.unchanged = slices.DeleteFunc(s.unchanged, func(key store.Key) bool { return s.gone[key] })
	}
	return store.Batches(to).ReplaceAll(store.Listing[T]{
		Objects: s.objects, Unchanged: s.unchanged, Lacking: lacking, ResourceVersion: version,
	})
}
