package write

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type (
	leaf struct {
		V string `json:"v"`
		H string `json:"hidden"`
	}
	less struct {
		V string `json:"v"`
	}
	deep    struct{ L []leaf }
	Deeper  struct{ deep }
	Shallow struct{ L []less }
	tagged  struct {
		M []less `json:"L"`
	}
	pointed struct{ *Shallow }
	other   struct{ L int }
	text    string
	Text    string
	Node    struct {
		*Node
		Name string
	}
	named struct{ less }
	Base  struct{ V string }
	Mid   struct {
		Base
		W string
	}
	once  struct{ Mid }
	twice struct{ Mid }
)

// What a struct shows decides what a patch may leave to others: a member more or less, and their fields are lost.
func TestShapeOfAStructIsThatOfEncodingJSON(t *testing.T) {
	for _, value := range []any{
		struct {
			Deeper // comes first, and has the same name more deeply
			Shallow
		}{Deeper{deep{[]leaf{{}}}}, Shallow{[]less{{}}}},
		struct {
			Deeper
			pointed
		}{Deeper{deep{[]leaf{{}}}}, pointed{&Shallow{}}}, // equally deep: none
		struct {
			Shallow
			other
		}{}, // equally deep: none
		struct {
			Shallow
			tagged
		}{tagged: tagged{[]less{{}}}}, // equally deep, and one has the name in its tag
		struct {
			Shallow
			tagged
			L string
		}{L: "x"},
		struct {
			Deeper
			Shallow
			other // hides the deeper one, together with Shallow
		}{},
		struct {
			less
			Named named // has less, too
			named       // more deeply
		}{},
		struct {
			A struct{ less }
			*Deeper
		}{Deeper: &Deeper{}},
		struct {
			once
			twice
		}{}, // Base is at one depth, and counts once
		struct {
			text // not exported, and no struct
			Text
		}{"a", "b"},
		struct {
			text `json:"text"`
			leaf `json:"leaf"`
			Skip string `json:"-"`
			none string
		}{none: "x"},
		Node{Node: &Node{Name: "b"}, Name: "a"},
	} {
		printed, err := json.Marshal(value)
		require.NoError(t, err)
		var members map[string]any
		require.NoError(t, json.Unmarshal(printed, &members))
		fields := fieldsOfStruct(reflect.TypeOf(value))
		assert.ElementsMatch(t, slices.Collect(maps.Keys(members)), slices.Collect(maps.Keys(fields)), "%T prints %s", value, printed)
		for name, f := range fields {
			v, err := reflect.ValueOf(value).FieldByIndexErr(f.index)
			require.NoError(t, err, name)
			if v.CanInterface() {
				want, err := json.Marshal(v.Interface())
				require.NoError(t, err)
				got, err := json.Marshal(members[name])
				require.NoError(t, err)
				assert.JSONEq(t, string(want), string(got), "%s of %T", name, value)
			}
		}
	}
}
