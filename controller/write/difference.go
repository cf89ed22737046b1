package write

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
)

// difference is a change of an object, as the JSON of the object before and after it.
type difference struct {
	shape         shape
	before, after map[string]any
	held          reflect.Value
}

// differenceOf compares the held object with the wanted one.
func differenceOf[T metav1.Object](held, want T) (d difference, err error) {
	switch of := reflect.ValueOf(held); {
	case stream.IsNil(held) || stream.IsNil(want):
		return d, errNil
	case reflect.TypeOf(held) != reflect.TypeOf(want): // T is an interface, and each type shows other members
		return d, fmt.Errorf("held is a %T, and want is a %T: make it from a Copy of held", held, want)
	case of.Kind() == reflect.Pointer && of.Pointer() == reflect.ValueOf(want).Pointer():
		return d, ErrSame
	case reflect.DeepEqual(held, want):
		return d, nil // encoding both took two thirds of an operator's restart
	default:
		d.shape, d.held = shapeOf(of.Type()), of
	}
	if d.before, err = documentOf(d.shape, held); err != nil {
		return d, err
	}
	if d.after, err = documentOf(d.shape, want); err != nil {
		return d, err
	}
	d.ofOneState()
	return d, nil
}

// ofOneState takes the UID and the resource version out of the difference. Held's are the precondition of
// a patch, and the wanted object may have none, or those of another state. Its operations would come after
// the precondition, and so replace it. Labels and annotations are maps in free-form data, too, so they do
// not go as a whole: see changes.
func (d *difference) ofOneState() {
	held, ok := d.before["metadata"].(map[string]any)
	if !ok {
		return
	}
	want, ok := d.after["metadata"].(map[string]any)
	if !ok {
		want = map[string]any{}
		if d.after == nil { // an Unstructured without data
			d.after = map[string]any{}
		}
		d.after["metadata"] = want
	}
	for _, name := range [...]string{"uid", "resourceVersion"} {
		if value, ok := held[name]; ok {
			want[name] = value
		} else {
			delete(want, name)
		}
	}
	for _, name := range [...]string{"labels", "annotations"} {
		if _, wasObject := held[name].(map[string]any); wasObject && want[name] == nil {
			want[name] = map[string]any{}
		}
	}
}

// documentOf returns the JSON of an object without its managedFields. They belong to the server, and
// entries that are no valid JSON, as protobuf can deliver them, would make the object unwritable.
func documentOf(s shape, object metav1.Object) (map[string]any, error) {
	if _, generic := object.(runtime.Unstructured); !generic && len(object.GetManagedFields()) > 0 {
		object = Copy(object)
		object.SetManagedFields(nil)
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, discreet.Error(err)
	}
	document, err := decodeDocument(data)
	if err != nil {
		return nil, err
	}
	if metadata, ok := document["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	s.withoutNulls(document, s.isServers())
	return document, nil
}

// decodeDocument reads a document, and keeps numbers as text. The default, float64, has only 53 bits
// for an int64: a change could be missed, or another number sent.
func decodeDocument(data []byte) (document map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err = decoder.Decode(&document); err != nil {
		err = discreet.Error(err)
	}
	return document, err
}

// member is one member of an object that differs.
type member struct {
	field
	name       string
	old, value any
	had, has   bool
}

// objects returns the members of both values, if both are objects.
func (m *member) objects() (old, value map[string]any, ok bool) {
	old, was := m.old.(map[string]any)
	value, is := m.value.(map[string]any)
	return old, value, was && is
}

// lists returns the items of both values, and whether a list changes, comes or goes.
func (m *member) lists() (old, value []any, ok bool) {
	old, was := m.old.([]any)
	value, is := m.value.([]any)
	return old, value, is && (was || !m.had) || was && !m.has
}

// changes returns the members that differ, sorted by name.
func (s shape) changes(before, after map[string]any) iter.Seq[*member] {
	return func(yield func(*member) bool) {
		for name := range union(before, after) {
			m := &member{name: name}
			m.field, _ = s.member(name)
			m.old, m.had = before[name]
			m.value, m.has = after[name]
			if old, wasObject := m.old.(map[string]any); wasObject && !m.has && (m.field.value || len(old) > 0 && m.shape.isMap() && s.isBuiltIn()) {
				// The tag omitzero leaves out a struct whose last member is removed, and omitempty a map
				// without entries. What is not shown of them must stay all the same: members that the
				// struct does not name, entries that a transform of the informer left out. A map of a custom
				// resource goes as a whole, because its server would store an empty one, and may refuse that.
				m.value, m.has = map[string]any{}, true
			}
			if (m.had != m.has || !reflect.DeepEqual(m.old, m.value)) && !yield(m) {
				return
			}
		}
	}
}

// mergePatch returns the merge patch of RFC 7386 that turns one document into another.
func mergePatch(s shape, before, after map[string]any) map[string]any {
	patch := map[string]any{}
	for m := range s.changes(before, after) {
		patch[m.name] = m.value
		if old, value, ok := m.objects(); ok {
			patch[m.name] = mergePatch(m.shape, old, value)
		}
	}
	return patch
}

// needsOperations reports whether a merge patch cannot express a change without a loss: it replaces
// whole lists, and lossy says which new values it cannot store. isNullOrList is for a server whose lists
// are unknown, because held may not show them, and isNull for one that has none under these names.
func needsOperations(s shape, before, after map[string]any, lossy func(any) bool) bool {
	for m := range s.changes(before, after) {
		_, wasList := m.old.([]any)
		if old, value, ok := m.objects(); ok && needsOperations(m.shape, old, value, lossy) || !ok && (wasList || m.has && contains(m.value, lossy)) {
			return true
		}
	}
	return false
}

// union returns the names of both objects, sorted.
func union(a, b map[string]any) iter.Seq[string] {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Values(slices.Compact(names))
}

// contains reports whether a condition holds for a value, or for one inside of it.
func contains(value any, is func(any) bool) bool {
	if is(value) {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if contains(v, is) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(v any) bool { return contains(v, is) })
	}
	return false
}

func isNull(value any) bool { return value == nil }

func isNullOrList(value any) bool {
	_, isList := value.([]any)
	return value == nil || isList
}

// hasNullItem reports whether a value is a list with a null, on which the test of the server's library
// panics.
func hasNullItem(value any) bool {
	list, _ := value.([]any)
	return slices.Contains(list, nil)
}

// isShown reports whether a value is not one of the zeros that a struct prints for absent members.
func isShown(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return false // but its members may be
	case []any:
		return len(value) > 0
	default:
		return !isZero(value)
	}
}

func isZero(scalar any) bool {
	return scalar == nil || scalar == "" || scalar == false || scalar == json.Number("0")
}

// lostNull returns the path of a null in wanted data that written data, the server's answer, does not
// have, although held did not have it either.
func lostNull(at path, held, want, written any) (lost path) {
	switch want := want.(type) {
	case map[string]any:
		held, _ := held.(map[string]any)
		written, _ := written.(map[string]any)
		for name := range union(want, nil) {
			if old, had := held[name]; had && reflect.DeepEqual(old, want[name]) {
				continue
			}
			if got, has := written[name]; want[name] == nil && (!has || got != nil) {
				return at.with(name)
			}
			if lost := lostNull(at.with(name), held[name], want[name], written[name]); lost != nil {
				return lost
			}
		}
	case []any:
		written, _ := written.([]any)
		for i, item := range want {
			if contains(item, isNull) && !slices.ContainsFunc(written, func(w any) bool {
				return item == nil && w == nil || item != nil && lostNull(at.with(i), nil, item, w) == nil
			}) {
				return at.with(i)
			}
		}
	}
	return nil
}

// path is the place of a value in a document: names and indexes.
type path []any

func (p path) with(step any) path { return append(slices.Clip(p), step) }

// String returns the path as errors of Kubernetes show it: spec.rules[0].
func (p path) String() string {
	var text []byte
	for _, step := range p {
		if _, isIndex := step.(int); isIndex {
			text = fmt.Appendf(text, "[%d]", step)
			continue
		}
		if len(text) > 0 {
			text = append(text, '.')
		}
		text = fmt.Append(text, step)
	}
	return string(text)
}
