package decode

import (
	"encoding/binary"
	"errors"
	"reflect"

	"github.com/kubereflector/kubereflector/internal/wire"
)

// protobufDecoder decodes types with a generated Unmarshal method. It cuts known fields, whose
// bytes came before, out of the message, and sets their shared values after Unmarshal.
type protobufDecoder struct {
	plan  *plan
	drops *plan // without sharing
	nests bool  // messages may contain themselves
	keeps bool  // objects may refer to bytes of out
	meter meter // of objects

	out    []byte // the message without the fields that were cut out
	nodes  []node
	found  []finding
	missed []finding
}

// node is a message within the object.
type node struct {
	parent, field int
	element       int // of a repeated field; -1 otherwise
	value         reflect.Value
}

// finding is the result of a lookup of a field.
type finding struct {
	node  int
	field *planned
	value reflect.Value // if the table had it
	run   []byte        // otherwise: the field's bytes
	answer
}

// errInconsistent ends an attempt and is never returned to a caller.
var errInconsistent = errors.New("a message is not what its type says")

func newProtobufDecoder(s *settings, t reflect.Type) *protobufDecoder {
	only := *s
	only.shares = nil
	return &protobufDecoder{plan: planFor(s, t), drops: planFor(&only, t), nests: nests(t), keeps: foreign(t)}
}

// decode decodes into the result of fresh.
func (d *protobufDecoder) decode(data []byte, fresh func() any) (any, error) {
	object := fresh()
	if d.nests && tooNested(data, mostNested) {
		return object, ErrTooDeep
	}
	plan := d.plan
	if !d.meter.open() {
		plan = d.drops
	}
	if plan == nil {
		return object, object.(message).Unmarshal(data)
	}
	defer d.forget()
	d.nodes = append(d.nodes, node{value: reflect.ValueOf(object).Elem()})
	if d.cut(plan, data, 0) != nil {
		return object, object.(message).Unmarshal(data)
	}
	if plan == d.plan {
		d.meter.count(len(data), len(data)-len(d.out))
	}
	if err := object.(message).Unmarshal(d.out); err != nil {
		return object, err
	}
	if !d.settle() {
		object = fresh()
		return object, object.(message).Unmarshal(data)
	}
	return object, nil
}

// forget drops the references to the last objects, and keeps the memory. It also drops the memory
// of an unusually large object.
func (d *protobufDecoder) forget() {
	const usual = 1 << 20
	if d.out = d.out[:0]; d.keeps || cap(d.out) > usual {
		d.out = nil
	}
	clear(d.nodes)
	clear(d.found)
	clear(d.missed)
	d.nodes, d.found, d.missed = d.nodes[:0], d.found[:0], d.missed[:0]
}

// cut appends the parts of a message that must be decoded to d.out.
func (d *protobufDecoder) cut(p *plan, b []byte, at int) error {
	var seen uint64 // numbers of planned fields, modulo 64: a clash disables sharing for the object
	for len(b) > 0 {
		f, err := wire.NextField(b)
		if err != nil {
			return err
		}
		field := p.field(f.Number)
		if field == nil {
			d.out = append(d.out, f.Raw...)
			b = b[len(f.Raw):]
			continue
		}
		run, err := runOf(b, f)
		if err != nil {
			return err
		}
		bit := uint64(1) << (f.Number % 64)
		if seen&bit != 0 {
			return errInconsistent // later fields change earlier ones
		}
		seen |= bit
		b = b[len(run):]
		if err := d.cutField(field, run, at); err != nil {
			return err
		}
	}
	return nil
}

// runOf returns all fields at the beginning of b that have the number of the first.
func runOf(b []byte, f wire.Field) ([]byte, error) {
	n := 0
	for number := f.Number; f.Number == number; {
		if f.Value == nil {
			return nil, errInconsistent
		}
		if n += len(f.Raw); n == len(b) {
			break
		}
		var err error
		if f, err = wire.NextField(b[n:]); err != nil {
			return nil, err
		}
	}
	return b[:n], nil
}

func (d *protobufDecoder) cutField(field *planned, run []byte, at int) error {
	if field.drop {
		return nil
	}
	if t := field.table; t != nil && t.open() {
		value, answer, ok := t.get(run)
		if ok {
			d.found = append(d.found, finding{node: at, field: field, value: value})
			return nil
		}
		if answer.keep {
			d.missed = append(d.missed, finding{node: at, field: field, run: run, answer: answer})
		}
	}
	if field.inside == nil {
		d.out = append(d.out, run...)
		return nil
	}
	for element := 0; len(run) > 0; element++ {
		f, err := wire.NextField(run)
		if err != nil {
			return err
		}
		run = run[len(f.Raw):]
		next := node{parent: at, field: field.index, element: -1}
		if field.repeated {
			next.element = element
		} else if element > 0 {
			return errInconsistent
		}
		d.nodes = append(d.nodes, next)
		if err := d.cutMessage(field.inside, f, len(d.nodes)-1); err != nil {
			return err
		}
	}
	return nil
}

// cutMessage appends a message without the known fields. The encoded length keeps its number of
// bytes.
func (d *protobufDecoder) cutMessage(p *plan, f wire.Field, at int) error {
	begin := len(d.out)
	header := len(f.Raw) - len(f.Value)
	d.out = append(d.out, f.Raw[:header]...)
	if err := d.cut(p, f.Value, at); err != nil {
		return err
	}
	size := len(d.out) - begin - header
	if size == len(f.Value) {
		return nil
	}
	_, tag := binary.Uvarint(f.Raw)
	length := d.out[begin+tag : begin+header]
	for i := range length {
		length[i] = byte(size)&0x7f | 0x80
		size >>= 7
	}
	length[len(length)-1] &= 0x7f
	return nil
}

// settle sets the known values, and stores new ones in the tables. It reports success.
func (d *protobufDecoder) settle() bool {
	for i := range d.found {
		f := &d.found[i]
		parent, ok := d.resolve(f.node)
		if !ok {
			return false
		}
		parent.Field(f.field.index).Set(f.value)
	}
	for i := range d.missed {
		f := &d.missed[i]
		parent, ok := d.resolve(f.node)
		if !ok {
			return false
		}
		value := parent.Field(f.field.index)
		if f.field.clips {
			clip(value)
		}
		kept := reflect.New(value.Type()).Elem()
		kept.Set(value)
		f.field.table.put(f.answer, f.run, kept)
	}
	return true
}

// resolve returns the decoded struct of a node.
func (d *protobufDecoder) resolve(at int) (reflect.Value, bool) {
	n := &d.nodes[at]
	if n.value.IsValid() {
		return n.value, true
	}
	v, ok := d.resolve(n.parent)
	if !ok {
		return v, false
	}
	v = v.Field(n.field)
	if n.element >= 0 {
		if v.Kind() != reflect.Slice || n.element >= v.Len() {
			return v, false
		}
		v = v.Index(n.element)
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return v, false
		}
		v = v.Elem()
	}
	n.value = v
	return v, true
}
