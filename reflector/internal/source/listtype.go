package source

import (
	"fmt"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// listType extracts the objects of type T from a list of type L. Generated lists share no interface
// for their items, so NewListType finds the field by reflection, once.
type listType[T Object, L any] struct {
	field []int // index of the field Items
	// pointers is true if the elements of Items have type T. Otherwise T is a pointer to them.
	pointers bool
	Err      error
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

func NewListType[T Object, L any]() listType[T, L] {
	object, list := reflect.TypeFor[T](), reflect.TypeFor[L]()
	bad := listType[T, L]{Err: &ListTypeError{List: list.String(), Object: object.String()}}
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

// Page converts a list to a page. It copies each object that a list holds by value. A pointer into
// the slice would keep all objects of the list in memory (kubernetes/kubernetes#111370).
func (t listType[T, L]) Page(list L) (Page[T], error) {
	if IsNil(list) {
		return Page[T]{}, ErrNoList
	}
	if IsTable(list) {
		return Page[T]{}, stream.ErrTable
	}
	metadata, err := meta.ListAccessor(list)
	if err != nil {
		return Page[T]{}, err
	}
	if err := stream.CheckVersion(metadata.GetResourceVersion()); err != nil {
		return Page[T]{}, err
	}
	items := reflect.ValueOf(list).Elem().FieldByIndex(t.field)
	p := Page[T]{
		Items:           make([]T, items.Len()),
		ResourceVersion: metadata.GetResourceVersion(),
		Continue:        metadata.GetContinue(),
		Sharded:         isSharded(list),
	}
	for i := range p.Items {
		item := items.Index(i)
		if !t.pointers {
			own := reflect.New(item.Type())
			own.Elem().Set(item)
			item = own
		}
		// NewListType has checked the type.
		p.Items[i] = item.Interface().(T)
	}
	return p, nil
}

// isSharded reports whether a list says that it contains only a shard.
func isSharded(list any) bool {
	switch list := list.(type) {
	case metav1.ShardedListInterface:
		return list.GetShardInfo() != nil
	case *unstructured.UnstructuredList:
		_, found, err := unstructured.NestedMap(list.Object, "metadata", "shardInfo")
		return found && err == nil
	}
	return false
}
