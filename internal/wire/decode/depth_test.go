package decode

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// schemaProps nests as those of CustomResourceDefinitions do. Its method is as lenient as generated ones.
type schemaProps struct {
	Note string       `json:"note" protobuf:"bytes,1,opt,name=note"`
	Not  *schemaProps `json:"not" protobuf:"bytes,2,opt,name=not"`
}

var errNoMessage = errors.New("no message")

func (s *schemaProps) Unmarshal(b []byte) error {
	for group := 0; len(b) > 0; {
		tag, n := number(b)
		if n == 0 || tag&7 == 4 && group == 0 {
			return errNoMessage
		}
		b = b[n:]
		switch tag & 7 {
		case 0:
			if _, n = number(b); n == 0 {
				return errNoMessage
			}
		case 1:
			n = 8
		case 2:
			size, m := number(b)
			if n = m + int(size); m == 0 || int(size) < 0 || n > len(b) {
				return errNoMessage
			}
			if value := b[m:n]; group > 0 {
			} else if tag>>3 == 1 {
				s.Note = string(value)
			} else if int32(tag>>3) == 2 {
				s.Not = &schemaProps{}
				if err := s.Not.Unmarshal(value); err != nil {
					return err
				}
			}
		case 3:
			group, n = group+1, 0
		case 4:
			group, n = group-1, 0
		case 5:
			n = 4
		default:
			return errNoMessage
		}
		if n > len(b) {
			return errNoMessage
		}
		b = b[n:]
	}
	return nil
}

func (s *schemaProps) depth() (n int) {
	for ; s.Not != nil; s = s.Not {
		n++
	}
	return n
}

// schemas returns so many schemas in one another. Each has before in front of the next one, and
// the tag of the next one is written as it is given.
func schemas(depth int, before, tag string) []byte {
	var reversed []byte
	for range depth {
		header := binary.AppendUvarint([]byte(before+tag), uint64(len(reversed)))
		slices.Reverse(header)
		reversed = append(reversed, header...)
	}
	slices.Reverse(reversed)
	return reversed
}

func TestDeeplyNestedMessagesAreRefused(t *testing.T) {
	d := decoderOf[*schemaProps](t)
	for name, c := range map[string]struct{ before, tag string }{
		"messages alone":            {"", "\x12"},
		"after a string":            {"\x0a\x01a", "\x12"},
		"after a group":             {"\x1b\x0a\x01a\x1c", "\x12"},
		"after a large number":      {"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x12"},
		"a number that is too wide": {"", "\x92\x80\x80\x80\x80\x80\x80\x80\x80\x70"},
		"after a broken message":    {"\x0a\x02\x12\x05", "\x12"},
	} {
		object, err := d.Decode(wire.Protobuf, schemas(mostNested, c.before, c.tag))
		require.NoError(t, err, name)
		require.Equal(t, mostNested, object.depth(), name)
		_, err = d.Decode(wire.Protobuf, schemas(mostNested+1, c.before, c.tag))
		require.ErrorIs(t, err, ErrTooDeep, name)
	}
	many := slices.Repeat(schemas(100, "", "\x12"), 100_000/100)
	_, err := d.Decode(wire.Protobuf, many)
	assert.NoError(t, err, "beside one another")
}

func TestOnlyTypesThatNestAreLookedAtFirst(t *testing.T) {
	assert.True(t, nests(reflect.TypeFor[schemaProps]()))
	assert.True(t, nests(reflect.TypeFor[struct {
		In map[string][]*schemaProps
	}]()))
	assert.True(t, nests(reflect.TypeFor[struct {
		Any any `protobuf_oneof:"any"`
	}]()))
	nesting := 0
	eachKind(t, func(t *testing.T, kind reflect.Type, _ func() runtime.Object) {
		if nests(kind) {
			nesting++
			assert.Contains(t, kind.String(), "Workload")
		}
	})
	assert.Less(t, nesting, 10)
}

// What else a server sends is as deep as it likes.
func TestDeeplyNestedValuesDoNotEndTheProcess(t *testing.T) {
	const depth = 1 << 20
	open := func(with string) string { return strings.Repeat(with, depth) }
	documents := map[string]string{}
	for name, with := range map[string][2]string{"arrays": {"[", "]"}, "objects": {`{"a":`, "}"}, "schemas": {`{"not":`, "}"}, "anys": {`{"any":`, "}"}} {
		documents[name] = open(with[0]) + "1" + open(with[1])
		documents[name+" without an end"] = open(with[0])
	}
	for name, value := range documents {
		for _, member := range []string{"unknown", "any", "raw", "tree", "recurse"} {
			_, err := decodes(t, decoderOf[*foo](t), wire.JSON, []byte(`{"spec":{"`+member+`":`+value+`}}`))
			assert.Error(t, err, "%s in %s", name, member)
		}
		_, err := decodes(t, decoderOf[*schemaProps](t), wire.JSON, []byte(value))
		assert.Error(t, err, name)
		_, err = decodes(t, decoderOf[*metav1.Status](t), wire.JSON, []byte(`{"details":`+value+`}`))
		assert.Error(t, err, name)
	}
	_, err := decodes(t, decoderOf[*metav1.Status](t), wire.Protobuf, []byte(open("\x63")))
	assert.Error(t, err, "groups")
}

// FuzzDepth compares what the look says with how deep the method goes.
func FuzzDepth(f *testing.F) {
	for _, before := range []string{"", "\x0a\x01a", "\x1b\x1c", "\x0a\x02\x12\x05", "\x0a\x01\x07"} {
		f.Add(schemas(3, before, "\x12"))
		f.Add(append(schemas(2, before, "\x92\x80\x80\x80\x80\x80\x80\x80\x80\x70"), 0xff))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var object schemaProps
		_ = object.Unmarshal(data)
		for most := range object.depth() {
			require.True(t, tooNested(data, most), "it is deeper than %d", most)
		}
	})
}
