package decode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestUnstructuredPodsEqualThoseOfUtiljson(t *testing.T) {
	for _, unique := range []bool{false, true} {
		sharing := decoderOf[*unstructured.Unstructured](t)
		plain := decoderOf[*unstructured.Unstructured](t, Options{WithoutInterning: true})
		unmanaged := decoderOf[*unstructured.Unstructured](t, Options{SkipManagedFields: true})
		for i, data := range podBytesOf(t, wire.JSON, makePods(period+shortPeriod, unique)) { // some pause
			var want map[string]any
			require.NoError(t, utiljson.Unmarshal(data, &want))
			for _, d := range []*Decoder[*unstructured.Unstructured]{sharing, plain} {
				if d == plain && i > 2*perTemplate {
					continue // it learns nothing
				}
				got, err := decodes(t, d, wire.JSON, data)
				require.NoError(t, err)
				require.Equal(t, want, got.Object)
			}
			unstructured.RemoveNestedField(want, "metadata", "managedFields")
			got, err := decodes(t, unmanaged, wire.JSON, data)
			require.NoError(t, err)
			require.Equal(t, want, got.Object)
		}
	}
}

func TestUnstructuredSkipsOnlyManagedFieldsOfTheObject(t *testing.T) {
	const template = `{%s"managedFields":[1],"metadata":{"managedFields":[2],"name":"a"},"spec":{"managedFields":[3],"template":{"metadata":{"managedFields":[4]}}}}`
	list := func(n int64) any { return []any{n} }
	want := map[string]any{
		"managedFields": list(1), "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"managedFields": list(3), "template": map[string]any{"metadata": map[string]any{"managedFields": list(4)}}},
	}
	d := decoderOf[*unstructured.Unstructured](t, Options{SkipManagedFields: true})
	for _, space := range []string{"", " "} {
		for range 3 {
			got, err := decodes(t, d, wire.JSON, fmt.Appendf(nil, template, space))
			require.NoError(t, err)
			require.Equal(t, want, got.Object)
		}
	}
}

func TestEqualObjectsInsideOfAnyAreShared(t *testing.T) {
	const text = `{"metadata":{"labels":{"a":"b"}},"spec":{"list":[{"x":"y"}],"empty":{}}}`
	labels := func(u *unstructured.Unstructured) map[string]any {
		return u.Object["metadata"].(map[string]any)["labels"].(map[string]any)
	}
	list := func(u *unstructured.Unstructured) *any { return &u.Object["spec"].(map[string]any)["list"].([]any)[0] }
	a, b := decodeAll[*unstructured.Unstructured](t, wire.JSON, text)
	assert.NotEqual(t, mapOf(a.Object), mapOf(b.Object), "the object itself is its own")
	assert.Equal(t, mapOf(labels(a)), mapOf(labels(b)))
	assert.Same(t, list(a), list(b))

	a, b = decodeAll[*unstructured.Unstructured](t, wire.JSON, text, Options{WithoutInterning: true})
	assert.NotEqual(t, mapOf(labels(a)), mapOf(labels(b)))
	assert.NotSame(t, list(a), list(b))
	a.Object["spec"].(map[string]any)["empty"].(map[string]any)["edited"] = true
	assert.Empty(t, b.Object["spec"].(map[string]any)["empty"])
}

func TestUnstructuredNeedsNoKind(t *testing.T) {
	d := decoderOf[*unstructured.Unstructured](t)
	for _, text := range []string{`{"metadata":{"name":"a"}}`, ` {"metadata": {"name": "a"}} `} {
		object, err := decodes(t, d, wire.JSON, []byte(text))
		require.NoError(t, err)
		assert.Equal(t, "a", object.GetName())
	}
}

// A value in the spec may have the same bytes as the metadata of an object.
func TestUnstructuredSkipsManagedFieldsWhateverWasShared(t *testing.T) {
	const metadata = `{"managedFields":[1],"name":"a"}`
	d := decoderOf[*unstructured.Unstructured](t, Options{SkipManagedFields: true})
	whole := map[string]any{"managedFields": []any{int64(1)}, "name": "a"}
	skipped := map[string]any{"name": "a"}
	for range 3 {
		got, err := decodes(t, d, wire.JSON, []byte(`{"metadata":`+metadata+`}`))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"metadata": skipped}, got.Object)
		got, err = decodes(t, d, wire.JSON, []byte(`{"metadata":`+metadata+`,"spec":{"metadata":`+metadata+`}}`))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"metadata": skipped, "spec": map[string]any{"metadata": whole}}, got.Object)
	}
}

func TestUnstructuredKeepsNoMemoryOfALongList(t *testing.T) {
	d := decoderOf[*unstructured.Unstructured](t)
	_, err := decodes(t, d, wire.JSON, []byte(`{"a":[0`+strings.Repeat(",0", 100_000)+`]}`))
	require.NoError(t, err)
	assert.LessOrEqual(t, cap(d.json.quick.untyped.stack), mostStack)
}

// namedAny is an empty interface with a name.
type namedAny any

func TestNamedEmptyInterfacesHoldTheNumbersOfUtiljson(t *testing.T) {
	type object struct {
		Field namedAny
		Map   map[string]namedAny
		List  []namedAny
	}
	const text = `{"Field":1,"Map":{"a":-0},"List":[1.5,2]}`
	want := &object{}
	require.NoError(t, utiljson.Unmarshal([]byte(text), want))
	got, err := decodes(t, decoderOf[*object](t), wire.JSON, []byte(text))
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// Each of many members has a table.
func TestTablesOfADecoderAreBoundedTogether(t *testing.T) {
	d := decoderOf[*unstructured.Unstructured](t)
	for i := range 400 {
		value := strings.Repeat(fmt.Sprintf("%08d", i), 4<<10)
		for range 3 {
			_, err := decodes(t, d, wire.JSON, fmt.Appendf(nil, `{"m%d":{"a":"%s"}}`, i%50, value))
			require.NoError(t, err)
		}
		kept := 0
		for j := range d.json.quick.untyped.tables {
			if table := d.json.quick.untyped.tables[j]; table != nil {
				kept += table.size + table.oldSize
			}
		}
		require.Equal(t, kept, d.json.quick.kept)
		require.LessOrEqual(t, kept, mostKept+len(value)+100)
	}
}
