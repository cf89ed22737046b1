package decode

import (
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plan has the actions for the fields of a protobuf message, by field number.
type plan struct{ fields []*planned }

// planned is a field with an action.
type planned struct {
	index    int // in the Go struct
	repeated bool
	drop     bool
	clips    bool
	table    *table[reflect.Value] // nil unless the field is shared
	inside   *plan                 // nil unless the field contains planned fields
}

func (p *plan) field(number int) *planned {
	if number >= len(p.fields) {
		return nil
	}
	return p.fields[number]
}

// planner makes the plans of all messages in one type.
type planner struct {
	settings *settings
	tables   map[reflect.Type]*table[reflect.Value]
	plans    map[reflect.Type]*plan // nil while the plan is being made: a recursive type has none
}

// planFor returns the plan of a type, or nil if it has no actions.
func planFor(s *settings, t reflect.Type) *plan {
	p := &planner{settings: s, tables: map[reflect.Type]*table[reflect.Value]{}, plans: map[reflect.Type]*plan{}}
	return p.plan(t)
}

func (p *planner) plan(t reflect.Type) *plan {
	if made, ok := p.plans[t]; ok {
		return made
	}
	p.plans[t] = nil
	made := &plan{}
	for i := range t.NumField() {
		number, repeated := protobufTag(t.Field(i).Tag.Get("protobuf"))
		if number == 0 {
			continue
		}
		field := p.field(t, t.Field(i), repeated)
		if field == nil {
			continue
		}
		field.index = i
		made.fields = append(made.fields, make([]*planned, max(0, number+1-len(made.fields)))...)
		made.fields[number] = field
	}
	if len(made.fields) == 0 {
		return nil
	}
	p.plans[t] = made
	return made
}

var objectMetaType = reflect.TypeFor[metav1.ObjectMeta]()

// field returns the action of a field, or nil.
func (p *planner) field(parent reflect.Type, f reflect.StructField, repeated bool) *planned {
	if p.settings.skipManagedFields && parent == objectMetaType && f.Type == managedFieldsType {
		return &planned{drop: true}
	}
	field := &planned{repeated: repeated}
	if _, ok := p.settings.shares[f.Type]; ok {
		if p.tables[f.Type] == nil {
			p.tables[f.Type] = &table[reflect.Value]{}
		}
		field.table = p.tables[f.Type]
		field.clips = hasSlices(f.Type, nil)
	}
	inside := f.Type
	if repeated && inside.Kind() == reflect.Slice {
		inside = inside.Elem()
	}
	if inside.Kind() == reflect.Pointer {
		inside = inside.Elem()
	}
	if inside.Kind() == reflect.Struct && reflect.PointerTo(inside).Implements(messageType) {
		field.inside = p.plan(inside)
	}
	if field.table == nil && field.inside == nil {
		return nil
	}
	return field
}

// protobufTag returns the number in the tag of a generated struct's field if the field holds bytes,
// a string, messages or a map, and 0 otherwise.
func protobufTag(tag string) (number int, repeated bool) {
	parts := strings.Split(tag, ",")
	if len(parts) < 3 || parts[0] != "bytes" {
		return 0, false
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 1 || n > 1<<10 {
		return 0, false
	}
	return n, parts[2] == "rep"
}
