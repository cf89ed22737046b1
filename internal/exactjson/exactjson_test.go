package exactjson

import (
	gojson "encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestNumbersKeepTheirTypes(t *testing.T) {
	want := map[string]any{
		"numbers": []any{
			int64(0), int64(3), int64(-1), int64(9007199254740993), int64(math.MaxInt64), int64(math.MinInt64),
			0.0, 3.0, -1.0, 1.5, 9007199254740992.0, float64(math.MaxInt64), float64(math.MinInt64),
			18446744073709551615.0, 1e15, 1e20, 1e21, 1e300, -1e300, 5e-324, 1e-7,
		},
		"deep": map[string]any{"list": []any{map[string]any{"float": 2.0}, nil, true, "<&>\u2028"}},
	}
	data, err := Append([]byte("before"), want)
	require.NoError(t, err)
	require.Equal(t, "before", string(data[:6]))
	var got map[string]any
	require.NoError(t, utiljson.Unmarshal(data[6:], &got))
	assert.Equal(t, want, got)
	assert.Contains(t, string(data), "<&>")

	data, err = Append(nil, math.Copysign(0, -1))
	require.NoError(t, err)
	assert.Equal(t, "-0.0", string(data), "an int64 has no negative zero")
}

// typed has each kind of field that encoding/json treats specially.
type typed struct {
	embedded `json:",inline"`
	Float    float64           `json:"float"`
	Small    float32           `json:"small"`
	Quoted   float64           `json:"quoted,string"`
	Integer  int64             `json:"integer,string"`
	Number   gojson.Number     `json:"number"`
	Any      any               `json:"any"`
	Raw      gojson.RawMessage `json:"raw"`
	Bytes    []byte            `json:"bytes"`
	Keys     map[int]string    `json:"keys"`
	Empty    []string          `json:"empty,omitempty"`
	Named    *embedded         `json:"named,omitempty"`
	Untagged ratio
}

type embedded struct {
	Shown string `json:"shown"`
}

type ratio float64

func TestTypesAreEncodedAsByEncodingJSON(t *testing.T) {
	want := typed{
		embedded: embedded{"a"}, Float: 3, Small: 3, Quoted: 3, Integer: math.MaxInt64, Number: "12345678901234567890",
		Any: map[string]any{"n": 1.5, "s": "x"}, Raw: gojson.RawMessage(`{"a":[1,2.0]}`), Bytes: []byte("bytes"),
		Keys: map[int]string{2: "b", 1: "a"}, Named: &embedded{"b"}, Untagged: 4,
	}
	data, err := Append(nil, &want)
	require.NoError(t, err)
	plain, err := gojson.Marshal(&want)
	require.NoError(t, err)
	assert.JSONEq(t, string(plain), string(data))
	var got typed
	require.NoError(t, utiljson.Unmarshal(data, &got))
	assert.Equal(t, want, got)
}

func TestNumbersOfUnstructuredObjectsKeepTheirTypes(t *testing.T) {
	type holder struct {
		Pointer *unstructured.Unstructured `json:"pointer"`
		Value   unstructured.Unstructured  `json:"value"`
		None    *unstructured.Unstructured `json:"none"`
	}
	object := func() map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Thing", "values": map[string]any{"float": 3.0, "int": int64(3)}}
	}
	want := holder{&unstructured.Unstructured{Object: object()}, unstructured.Unstructured{Object: object()}, nil}
	data, err := Append(nil, &want)
	require.NoError(t, err)
	var got holder
	require.NoError(t, utiljson.Unmarshal(data, &got))
	assert.Equal(t, want, got)
}

func TestValuesWithoutAnEncodingAreErrors(t *testing.T) {
	for _, value := range []any{math.NaN(), math.Inf(1), make(chan int), gojson.Number("1x"), map[string]any{"a": math.Inf(-1)}} {
		_, err := Append(nil, value)
		assert.Error(t, err, "%v", value)
	}
}

type vault struct{}

var errSecret = errors.New("bad password s3cret")

func (vault) MarshalJSON() ([]byte, error) { return nil, errSecret }

func TestErrorQuotesNoValue(t *testing.T) {
	_, err := Append(nil, map[string]any{"a": vault{}})
	require.ErrorIs(t, err, errSecret)
	assert.NotContains(t, err.Error(), "s3cret")
}
