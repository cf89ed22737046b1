package reflector

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
)

// listType knows how to take the objects of type T out of a list of type L.
// Generated lists share no interface that has their items, so the field is found
// by reflection, once.
type listType[T, L any] struct {
	field []int // of Items
	// pointers is true if Items holds the objects themselves; else it holds
	// what they point to.
	pointers bool
	err      error
}

// ListTypeError means that the lists of a client are not what Kubernetes' code
// generator makes: a pointer to a struct whose field Items is a slice of the
// objects.
type ListTypeError struct {
	// List and Object are Go types, such as "*v1.PodList" and "*v1.Pod".
	List, Object string
}

// Error says what is expected of a list type.
func (e *ListTypeError) Error() string {
	return fmt.Sprintf("%s is no list of %s: want a pointer to a struct with list metadata and a field Items", e.List, e.Object)
}

func newListType[T, L any]() listType[T, L] {
	object, list := reflect.TypeFor[T](), reflect.TypeFor[L]()
	bad := listType[T, L]{err: &ListTypeError{List: list.String(), Object: object.String()}}
	if list.Kind() != reflect.Pointer || list.Elem().Kind() != reflect.Struct {
		return bad
	}
	field, ok := list.Elem().FieldByName("Items")
	if !ok || field.Type.Kind() != reflect.Slice {
		return bad
	}
	item := field.Type.Elem()
	if item != object && reflect.PointerTo(item) != object {
		return bad
	}
	if _, err := meta.ListAccessor(reflect.New(list.Elem()).Interface()); err != nil {
		return bad
	}
	return listType[T, L]{field: field.Index, pointers: item == object}
}

// page takes a list apart. Objects that a list holds by value are copied, each on
// its own: a pointer to one of them would keep all of them from being freed
// (kubernetes/kubernetes#111370).
func (t listType[T, L]) page(list L) (page[T], error) {
	if isNil(list) {
		return page[T]{}, errNoList
	}
	if isTable(list) {
		return page[T]{}, ErrTable
	}
	metadata, err := meta.ListAccessor(list)
	if err != nil {
		return page[T]{}, err
	}
	if err := checkVersion(metadata.GetResourceVersion()); err != nil {
		return page[T]{}, err
	}
	items := reflect.ValueOf(list).Elem().FieldByIndex(t.field)
	p := page[T]{
		items:           make([]T, items.Len()),
		resourceVersion: metadata.GetResourceVersion(),
		next:            metadata.GetContinue(),
		sharded:         isSharded(list),
	}
	for i := range p.items {
		item := items.Index(i)
		if !t.pointers {
			own := reflect.New(item.Type())
			own.Elem().Set(item)
			item = own
		}
		// newListType made sure of the type.
		p.items[i] = item.Interface().(T)
	}
	return p, nil
}
