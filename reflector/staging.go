package reflector

import (
	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/watch"
)

// staging collects the objects of a list or of a watch-list until it is complete.
type staging[T Object] struct {
	objects []T
	// places says where the objects of a watch-list are, since later events of it
	// can change and delete them. Lists need none.
	places map[store.Key]int
}

func (s *staging[T]) discard() { *s = staging[T]{} }

func (s *staging[T]) keep(objects []T) {
	if s.objects == nil {
		s.objects = objects
		return
	}
	s.objects = append(s.objects, objects...)
}

// stage applies an event of a watch-list. Objects without a name have no place: the
// store will say what it thinks of them.
func (s *staging[T]) stage(event watch.EventType, object T) {
	key := store.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
	place, known := s.places[key]
	if known && event == watch.Deleted {
		last := len(s.objects) - 1
		moved := s.objects[last]
		s.objects[place] = moved
		if moved.GetName() != "" {
			s.places[store.Key{Namespace: moved.GetNamespace(), Name: moved.GetName()}] = place
		}
		s.objects = s.objects[:last]
		delete(s.places, key)
		return
	}
	switch {
	case event == watch.Deleted:
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
