package manager

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/mapper"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrNoConfig means that an informer was asked of a manager that has no config.
var ErrNoConfig = errors.New("manager has no config: pass one to New")

// Source says which objects an informer has. The zero Source is all objects of the kind
// that the manager's scheme has for the Go type.
type Source struct {
	// Resource is where the objects are. If it is empty, the server is asked where objects
	// of the kind are.
	Resource schema.GroupVersionResource
	// Kind is the kind of the objects, with its version. It is needed for a Go type that is
	// not in the manager's scheme, unless there is a Resource.
	Kind schema.GroupVersionKind
	// Namespace is the only one that matters; empty means all, or that there are none.
	Namespace string
	// LabelSelector and FieldSelector leave objects out, as in kubectl's options.
	LabelSelector, FieldSelector string
}

// String says what there is to say beside the Go type.
func (s Source) String() string {
	var parts []string
	switch {
	case !s.Resource.Empty():
		parts = append(parts, s.Resource.GroupResource().String()+"/"+s.Resource.Version)
	case !s.Kind.Empty():
		parts = append(parts, s.Kind.GroupKind().String()+"/"+s.Kind.Version)
	}
	if s.Namespace != "" {
		parts = append(parts, "in "+s.Namespace)
	}
	if s.LabelSelector != "" {
		parts = append(parts, "with "+s.LabelSelector)
	}
	if s.FieldSelector != "" {
		parts = append(parts, "where "+s.FieldSelector)
	}
	return strings.Join(parts, " ")
}

func (s Source) selectors() ([]reflector.Option, error) {
	byLabel, err := labels.Parse(s.LabelSelector)
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(s.FieldSelector)
	if err != nil {
		return nil, err
	}
	return []reflector.Option{reflector.WithLabelSelector(byLabel), reflector.WithFieldSelector(byField)}, nil
}

// sharing is the informers that were asked for.
type sharing struct {
	mu    sync.Mutex
	all   map[shared]informer.Member // an *informer.Informer of the type in the key
	asked *mapper.Mapper             // nil until it is needed
}

// shared is what makes two informers one.
type shared struct {
	of   reflect.Type
	from Source
}

// Informer returns the informer of a source. Whoever asks for the same type and source
// gets the same one: one watch, and one cache. The manager runs it, if it does already at
// once, and until it ends.
//
// For an informer with options of its own make one, and [Manager.Add] it.
func Informer[T reflector.Object](m *Manager, from Source) (*informer.Informer[T], error) {
	if from.Resource.Empty() && from.Kind.Empty() {
		// So that it is the same informer whether somebody names the kind or not.
		from.Kind = kindOf[T](m.scheme)
	}
	key := shared{of: reflect.TypeFor[T](), from: from}
	s := &m.informers
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.all[key].(*informer.Informer[T]); ok {
		return known, nil
	}
	client, err := clientLocked[T](m, from)
	if err != nil {
		return nil, fmt.Errorf("informer of %s %s: %w", key.of, from, err)
	}
	selecting, err := from.selectors()
	if err != nil {
		return nil, fmt.Errorf("informer of %s %s: %w", key.of, from, err)
	}
	made := informer.New(client, informer.WithName(strings.TrimSpace(key.of.String()+" "+from.String())),
		informer.WithLogger(m.logger), informer.WithReflector(selecting...))
	if s.all == nil {
		s.all = map[shared]informer.Member{}
	}
	s.all[key] = made
	m.Add(made)
	return made, nil
}

// clientLocked returns the client of a source.
func clientLocked[T reflector.Object](m *Manager, from Source) (*reflector.Resource[T], error) {
	if m.config == nil {
		return nil, ErrNoConfig
	}
	if !from.Resource.Empty() {
		return reflector.ForResource[T](m.config, from.Resource, from.Namespace)
	}
	asked := m.mapper
	if asked == nil {
		if m.informers.asked == nil {
			var err error
			if m.informers.asked, err = mapper.InMemory(m.config); err != nil {
				return nil, err
			}
		}
		asked = m.informers.asked
	}
	return reflector.ForKind[T](m.config, from.Namespace,
		reflector.WithScheme(m.scheme), reflector.WithKind(from.Kind), reflector.WithRESTMapper(asked))
}

// kindOf returns the kind that a scheme has for T, if there is one.
func kindOf[T reflector.Object](scheme *runtime.Scheme) schema.GroupVersionKind {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return schema.GroupVersionKind{}
	}
	object, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
	if !ok {
		return schema.GroupVersionKind{}
	}
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil || len(kinds) != 1 {
		return schema.GroupVersionKind{} // reflector.ForKind says why
	}
	return kinds[0]
}
