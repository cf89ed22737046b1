package decode

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// schemaProps nests as those of CustomResourceDefinitions do.
type schemaProps struct {
	Note string       `json:"note" protobuf:"bytes,1,opt,name=note"`
	Not  *schemaProps `json:"not" protobuf:"bytes,2,opt,name=not"`
}

func (s *schemaProps) Unmarshal([]byte) error { return nil }

func TestMessagesThatMayNestAreRefused(t *testing.T) {
	_, err := decoderOf[*schemaProps](t).Decode(wire.Protobuf, []byte("\x12\x00"))
	assert.ErrorIs(t, err, ErrNoProtobuf)
}

func TestFewTypesNest(t *testing.T) {
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
