package reflector

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
)

// listType extracts the objects of type T from a list of type L. Generated lists share no interface
// for their items, so newListType finds the field by reflection, once.
type listType[T, L any] struct {
	field []int // index of the field Items
	// pointers is true if the elements of Items have type T. Otherwise T is a pointer to them.
	pointers bool
	err      error
}

// ListTypeError means that a client's list type differs from the output of Kubernetes' code
// generator: a pointer to a struct whose field Items is a slice of the objects.
type ListTypeError struct {
	// List and Object are Go types, such as "*v1.PodList" and "*v1.Pod".
	List, Object string
}

// Error names the list type and the expected shape.
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

// page converts a list to a page. It copies each object that a list holds by value. A pointer into
// the slice would keep all objects of the list in memory (kubernetes/kubernetes#111370).
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
		// newListType has checked the type.
		p.items[i] = item.Interface().(T)
	}
	return p, nil
}
