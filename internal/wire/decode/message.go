package decode

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"github.com/kubereflector/kubereflector/internal/wire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// field is a field of a protobuf message.
type field struct {
	offset   uintptr
	reader   *reader // nil if the message has no field with this number
	table    int     // -1 if the type is not shared
	varint   bool    // a number or a bool, or several
	repeated bool
	drop     bool
}

// mostFields is the largest number of a field.
const mostFields = 127

// addFields adds the protobuf fields of a struct, whose generated method this package then replaces.
// It adds none if the method may do more than the tags say.
func (m *readers) addFields(r *reader) {
	t := r.typ
	if t.Kind() != reflect.Struct || foreign(t) || !isMessage(t) {
		return
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("protobuf")
		if tag == "" && f.Anonymous && f.Type == typeMetaType {
			continue // an object's kind is outside of its message
		}
		number, added, ok := m.field(f, tag)
		if !ok {
			return
		}
		added.drop = m.options.SkipManagedFields && t == objectMetaType && f.Type == managedFieldsType
		fields = append(fields, make([]field, max(0, number+1-len(fields)))...)
		fields[number] = added
	}
	r.fields = fields
}

// field returns the field with the number in a tag, and false if this package does not decode it.
// The rest follows from the Go type, from which Kubernetes generates messages: hand-written tags
// often name another wire type or repetition.
func (m *readers) field(f reflect.StructField, tag string) (number int, made field, ok bool) {
	_, rest, _ := strings.Cut(tag, ",")
	text, _, _ := strings.Cut(rest, ",")
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > mostFields || !f.IsExported() {
		return 0, made, false
	}
	t := f.Type
	switch {
	case isMessage(t) || t == bytesType:
	case t.Kind() == reflect.Map:
		if t.Key().Kind() != reflect.String {
			return 0, made, false
		}
		made.repeated, t = true, t.Elem()
	case t.Kind() == reflect.Slice:
		made.repeated, t = true, t.Elem()
	}
	if t.Kind() == reflect.Pointer && f.Type.Kind() != reflect.Map {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		made.varint, ok = true, f.Type.Kind() != reflect.Map
	case reflect.String:
		ok = true
	default:
		// Generated methods make an empty slice of an empty message that is a slice.
		ok = t.Kind() == reflect.Struct && isMessage(t) || t == bytesType
	}
	made.offset, made.reader, made.table = f.Offset, m.reader(f.Type), m.table(f.Type)
	return number, made, ok
}

var bytesType = reflect.TypeFor[[]byte]()

func isMessage(t reflect.Type) bool { return reflect.PointerTo(t).Implements(messageType) }

// message decodes a message into the zero value at p. Like generated methods, it ignores unknown
// fields.
func (q *quick) message(r *reader, p unsafe.Pointer, b []byte) bool {
	if r.fields == nil {
		return reflect.NewAt(r.typ, p).Interface().(message).Unmarshal(b) == nil
	}
	if q.depth++; q.depth > mostDepth {
		return false
	}
	var seen [(mostFields + 1) / 64]uint64
	for i := 0; i < len(b); {
		tag, value := varintAt(b, i)
		if value == 0 {
			return false
		}
		number := tag >> 3
		if number >= uint64(len(r.fields)) || r.fields[number].reader == nil {
			unknown, err := wire.NextField(b[i:])
			if err != nil {
				return false
			}
			i += len(unknown.Raw)
			continue
		}
		bit := uint64(1) << (number % 64)
		f := &r.fields[number]
		if seen[number/64]&bit != 0 || f.varint != (tag&7 == 0) || !f.varint && tag&7 != 2 {
			return false // the generated method merges fields that come again
		}
		seen[number/64] |= bit
		end, ok := q.field(f, unsafe.Add(p, f.offset), b, i, value)
		if !ok {
			return false
		}
		i = end
	}
	q.depth--
	return true
}

// field decodes the field at i, and equal fields after it if the field is repeated. value is the
// index after the tag.
func (q *quick) field(f *field, p unsafe.Pointer, b []byte, i, value int) (end int, ok bool) {
	n, begin, end := f.valueAt(b, value)
	if end == 0 {
		return 0, false
	}
	if f.table < 0 && !f.repeated {
		return end, q.single(f.reader, p, n, b[begin:end])
	}
	count := 1
	if f.repeated {
		for tag := b[i:value]; bytes.HasPrefix(b[end:], tag); count++ {
			if _, _, end = f.valueAt(b, end+len(tag)); end == 0 {
				return 0, false
			}
		}
	}
	raw := b[i:end]
	switch {
	case f.drop:
		return end, true
	case f.table < 0 || !q.tables[f.table].open():
		return end, q.repeated(f, p, raw, value-i, count)
	}
	into := reflect.NewAt(f.reader.typ, p).Elem()
	known, a, ok := q.tables[f.table].get(raw)
	if ok {
		into.Set(known)
		return end, true
	}
	if ok = q.repeated(f, p, raw, value-i, count); ok {
		q.share(f.reader, f.table, a, raw, into)
	}
	return end, ok
}

// valueAt returns the number or the length at i, the index of the value's bytes, and the value's
// end. The end is 0 if there is no value.
func (f *field) valueAt(b []byte, i int) (n uint64, begin, end int) {
	n, begin = varintAt(b, i)
	if f.varint || begin == 0 {
		return n, begin, begin
	}
	if n > uint64(len(b)-begin) {
		return 0, 0, 0
	}
	return n, begin, begin + int(n)
}

// repeated decodes the one field in raw, or the count fields of a list or a map, whose tags have
// the same length.
func (q *quick) repeated(f *field, p unsafe.Pointer, raw []byte, tag, count int) bool {
	r := f.reader
	if !f.repeated {
		n, begin, end := f.valueAt(raw, tag)
		return q.single(r, p, n, raw[begin:end])
	}
	if r.kind == reflect.Map {
		return q.pairs(f, p, raw, tag, count)
	}
	list := reflect.NewAt(r.typ, p).Elem()
	list.Grow(count)
	list.SetLen(count)
	list.SetCap(count)
	first, size := list.UnsafePointer(), r.elem.typ.Size()
	// A pointer behind the last element would be invalid.
	for i, at := 0, uintptr(0); i < len(raw); at += size {
		n, begin, end := f.valueAt(raw, i+tag)
		if !q.single(r.elem, unsafe.Add(first, at), n, raw[begin:end]) {
			return false
		}
		i = end
	}
	return true
}

// pairs decodes a map. Each pair is a message with a key and a value.
func (q *quick) pairs(f *field, p unsafe.Pointer, raw []byte, tag, count int) bool {
	r := f.reader
	into := reflect.NewAt(r.typ, p)
	into.Elem().Set(reflect.MakeMapWithSize(r.typ, count))
	m := into.Interface()
	for i := 0; i < len(raw); {
		_, begin, end := f.valueAt(raw, i+tag)
		i = end
		key, value, ok := pairOf(raw[begin:end])
		if !ok {
			return false
		}
		name := q.untyped.strings.text(key)
		switch m := m.(type) { // for the most frequent maps, without reflection
		case *map[string]string:
			(*m)[name] = q.untyped.strings.text(value)
		case *map[string][]byte:
			(*m)[name] = append([]byte{}, value...)
		case *corev1.ResourceList:
			var quantity resource.Quantity
			ok = quantity.Unmarshal(value) == nil
			(*m)[corev1.ResourceName(name)] = quantity
		default:
			elem := reflect.New(r.elem.typ)
			ok = q.single(r.elem, elem.UnsafePointer(), 0, value)
			into.Elem().SetMapIndex(reflect.ValueOf(name).Convert(r.typ.Key()), elem.Elem())
		}
		if !ok {
			return false
		}
	}
	return true
}

// single decodes a value, which is a number or has bytes.
func (q *quick) single(r *reader, p unsafe.Pointer, n uint64, b []byte) bool {
	switch r.kind {
	case reflect.String:
		*(*string)(p) = q.untyped.strings.text(b)
	case reflect.Bool:
		*(*bool)(p) = n != 0
	case reflect.Int32, reflect.Uint32:
		*(*uint32)(p) = uint32(n)
	case reflect.Int64, reflect.Uint64:
		*(*uint64)(p) = n
	case reflect.Pointer:
		v := reflect.New(r.elem.typ).UnsafePointer()
		*(*unsafe.Pointer)(p) = v
		return q.single(r.elem, v, n, b)
	default:
		if r.does == times {
			return (*metav1.Time)(p).Unmarshal(b) == nil
		}
		if r.does != blobs {
			return q.message(r, p, b)
		}
		*(*[]byte)(p) = append([]byte{}, b...)
	}
	return true
}

// pairOf returns the two fields of a map's pair in the order in which generated methods write them.
func pairOf(b []byte) (key, value []byte, ok bool) {
	parts := [2][]byte{}
	for i := range parts {
		if at(b, 0) != byte(i+1)<<3|2 {
			return nil, nil, false
		}
		n, begin := varintAt(b, 1)
		if begin == 0 || n > uint64(len(b)-begin) {
			return nil, nil, false
		}
		parts[i], b = b[begin:begin+int(n)], b[begin+int(n):]
	}
	return parts[0], parts[1], len(b) == 0
}

// varintAt returns the number at i and its end, or 0 if there is no number.
func varintAt(b []byte, i int) (n uint64, end int) {
	if i < len(b) && b[i] < 0x80 {
		return uint64(b[i]), i + 1
	}
	return longVarintAt(b, i)
}

func longVarintAt(b []byte, i int) (n uint64, end int) {
	if i+1 < len(b) && b[i+1] < 0x80 {
		return uint64(b[i]&0x7f) | uint64(b[i+1])<<7, i + 2
	}
	n, size := binary.Uvarint(b[min(i, len(b)):])
	if size <= 0 {
		return 0, 0
	}
	return n, i + size
}
