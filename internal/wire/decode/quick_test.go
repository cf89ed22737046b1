package decode

import (
	gojson "encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// decodeMessage decodes a protobuf object into the zero value at p, and reports success.
func (q *quick) decodeMessage(data []byte, p unsafe.Pointer) bool {
	q.depth = 0
	return q.done(q.message(q.root, p, data))
}

// tries reports whether data is decoded quickly into a T.
func tries(t *testing.T, elem reflect.Type, data string, opts ...Options) bool {
	d := newErased(elem, opts...)
	require.NotNil(t, d.json.quick)
	return d.json.quick.decode([]byte(data), reflect.New(elem).UnsafePointer())
}

func TestWhatServersWriteIsDecodedQuickly(t *testing.T) {
	for _, unique := range []bool{false, true} {
		for _, data := range podBytesOf(t, wire.JSON, makePods(50, unique)) {
			require.True(t, tries(t, reflect.TypeFor[corev1.Pod](), string(data)), "%s", data)
			require.True(t, tries(t, reflect.TypeFor[corev1.Pod](), string(data), Options{SkipManagedFields: true}))
			require.True(t, tries(t, reflect.TypeFor[metav1.PartialObjectMetadata](), string(data)), "a smaller struct")
		}
	}
	kinds, quick := 0, 0
	eachKind(t, func(t *testing.T, kind reflect.Type, fill func() runtime.Object) {
		data, err := gojson.Marshal(fill())
		require.NoError(t, err)
		kinds++
		if d := newErased(kind); d.json.quick != nil && d.json.quick.decode(data, reflect.New(kind).UnsafePointer()) {
			quick++
		}
	})
	assert.Greater(t, quick, kinds*98/100, "of %d", kinds)
}

func TestProtobufOfServersIsDecodedQuickly(t *testing.T) {
	kinds, quick := 0, 0
	eachKind(t, func(t *testing.T, kind reflect.Type, fill func() runtime.Object) {
		d := newErased(kind)
		if !d.codec.protobuf {
			return
		}
		data, err := fill().(interface{ Marshal() ([]byte, error) }).Marshal()
		require.NoError(t, err)
		kinds++
		if q := d.messages; q != nil && q.decodeMessage(data, reflect.New(kind).UnsafePointer()) {
			quick++
		}
	})
	assert.Greater(t, quick, kinds*98/100, "of %d", kinds)
}

func TestProtobufThatIsUnusualIsGivenUp(t *testing.T) {
	d := decoderOf[*corev1.Pod](t)
	for name, data := range map[string]string{
		"a field twice":            "\x0a\x00\x12\x00\x0a\x00",
		"another wire type":        "\x08\x01",
		"the number 0":             "\x02\x00",
		"a group":                  "\x7b\x7c",
		"no end":                   "\x0a\x05\x0a\x01a",
		"no length":                "\x0a",
		"no end of an unknown one": "\x7a\x05",
		"a pair without a value":   "\x0a\x05\x5a\x03\x0a\x01a",
		"a pair in another order":  "\x0a\x08\x5a\x06\x12\x01b\x0a\x01a",
		"a list in two pieces":     "\x0a\x0b\x72\x01a\x0a\x01n\x72\x01b\x72\x00",
		"a quantity that is none":  "\x12\x10\x12\x0e\x42\x0c\x0a\x0a\x0a\x01a\x12\x05\x0a\x03x_x",
	} {
		assert.False(t, d.messages.decodeMessage([]byte(data), reflect.New(reflect.TypeFor[corev1.Pod]()).UnsafePointer()), name)
		want := &corev1.Pod{}
		bad := want.Unmarshal([]byte(data))
		got, err := d.Decode(wire.Protobuf, []byte(data))
		assert.Equal(t, bad == nil, err == nil, name)
		if bad == nil {
			assert.Equal(t, want, got, name)
		}
	}
	for name, data := range map[string]string{
		"nothing": "", "unknown fields": "\x78\x01\x0a\x03\x0a\x01n\xd2\x0f\x01x\x7d1234\x7912345678", "an empty list": "\x12\x00", "a long tag": "\x8a\x80\x00\x03\x0a\x01n",
	} {
		object := &corev1.Pod{}
		require.True(t, d.messages.decodeMessage([]byte(data), reflect.ValueOf(object).UnsafePointer()), name)
		want := &corev1.Pod{}
		require.NoError(t, want.Unmarshal([]byte(data)), name)
		assert.Equal(t, want, object, name)
	}
}

func TestWhatIsUnusualIsGivenUp(t *testing.T) {
	for _, data := range []string{
		``, `{`, `[]`, `{} `, ` {}`, `{"kind" :"a"}`, `{"kind":"a", "spec":{}}`, `{"kind":"a","kind":"b"}`, `{"k\u0069nd":"a"}`, `{"kind":"a"}}`, `{"kind":5}`,
		`{"parts":[{"args":["a", "b"]}]}`, `{"parts":[{"args":["a"}]}`, `{"unknown":[}`, strings.Repeat(`{"inner":`, mostDepth) + `{}` + strings.Repeat(`}`, mostDepth),
	} {
		assert.False(t, tries(t, reflect.TypeFor[nested](), data), data)
	}
	for _, data := range []string{
		`{}`, `{"metadata":{"name":"\u00e4","annotations":{"a":"\"","b":"ä"},"generation":1234567890123456789,"creationTimestamp":null}}`,
		`{"unknown":{"a":[1,null]},"inner":{"conditions":[],"inner":{"own":{"x":[{}]}}}}`, strings.Repeat(`{"inner":`, mostDepth-1) + `{}` + strings.Repeat(`}`, mostDepth-1),
	} {
		assert.True(t, tries(t, reflect.TypeFor[nested](), data), data)
	}
}

// endless has lists in lists.
type endless struct {
	metav1.ObjectMeta `json:"metadata"`
	Deeper            deeper `json:"deeper"`
}

type deeper []deeper

func TestListsThatAreEndlessDoNotEndTheProcess(t *testing.T) {
	const depth = 5 << 20
	d := newErased(reflect.TypeFor[endless]())
	for _, end := range []string{"", strings.Repeat("]", depth) + "}"} {
		_, err := d.Decode(wire.JSON, []byte(`{"deeper":`+strings.Repeat("[", depth)+end))
		assert.Error(t, err)
	}
}

// TestDamagedObjectsAreDecodedAsTheIncumbentDoes damages an object at each of its bytes.
func TestDamagedObjectsAreDecodedAsTheIncumbentDoes(t *testing.T) {
	yes := true
	object := &foo{
		TypeMeta: metav1.TypeMeta{Kind: "Foo"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{"a": "b", "c": "\n"}, CreationTimestamp: metav1.NewTime(time.Unix(1_750_000_000, 0)),
			OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: &yes}}, Generation: 12,
		},
	}
	object.Spec.Structs = []fooBase{{Base: "y", Extra: map[string]string{}}, {}}
	text, err := gojson.Marshal(object.ObjectMeta)
	require.NoError(t, err)
	more, err := gojson.Marshal(object.Spec.Structs)
	require.NoError(t, err)
	data := `{"kind":"Foo","metadata":` + string(text) + `,"conditions":null,"parts":[{"name":"p","args":["q","é"],"stdin":true,"ports":[{"containerPort":-5}],"terminationMessagePath":"/x"}],"structs":` + string(more) + `}`
	require.True(t, tries(t, reflect.TypeFor[nested](), data))
	d := newErased(reflect.TypeFor[nested]())
	compare := func(text string) {
		want := &nested{}
		bad := utiljson.Unmarshal([]byte(text), want)
		for range 2 {
			got, err := d.Decode(wire.JSON, []byte(text))
			require.Equal(t, bad == nil, err == nil, "%s: %v, %v", text, bad, err)
			if bad == nil {
				require.Equal(t, want, got, text)
			}
		}
	}
	for i := range data {
		compare(data[:i])
		for _, c := range []string{"", " ", "0", `"`, `\`, "}", "]", ",", "\x01", "\xff"} {
			compare(data[:i] + c + data[i+1:])
		}
	}
}

func TestEqualStringsHaveTheSameMemory(t *testing.T) {
	codec, err := For[*corev1.Pod](Options{WithoutInterning: true})
	require.NoError(t, err)
	d := codec.NewDecoder()
	pod := func(node, message string) *corev1.Pod {
		p, err := d.Decode(wire.JSON, []byte(`{"spec":{"nodeName":"`+node+`"},"status":{"message":"`+message+`"}}`))
		require.NoError(t, err)
		return p
	}
	long := strings.Repeat("x", internedLength+1)
	a, b := pod("node-1", long), pod("node-1", long)
	assert.Same(t, unsafe.StringData(a.Spec.NodeName), unsafe.StringData(b.Spec.NodeName))
	assert.NotSame(t, unsafe.StringData(a.Status.Message), unsafe.StringData(b.Status.Message))
	assert.Len(t, d.json.quick.untyped.strings.places, fewestPlaces)
}

func TestPlacesOfStringsGrowWithTheStrings(t *testing.T) {
	var s interned
	first := s.text([]byte("first"))
	for n := 0; len(s.places) == fewestPlaces; n++ {
		require.Less(t, n, 10*fewestPlaces)
		s.text(fmt.Append(nil, n))
		first = s.text([]byte("first")) // it may have lost its place
	}
	assert.Same(t, unsafe.StringData(first), unsafe.StringData(s.text([]byte("first"))), "strings keep their memory")
	for n := range 100 * mostPlaces {
		s.text(fmt.Append(nil, n))
	}
	assert.Len(t, s.places, mostPlaces)
}

// A value that is left to the library is in others, which it does not see.
func TestWhatIsDeeperThanTheLibraryTakesIsRefused(t *testing.T) {
	const most = 10_000
	d := newErased(reflect.TypeFor[nested]())
	for _, member := range []string{"unknown", "conditions", "any"} {
		for _, outer := range []int{1, mostDepth - 1} {
			for _, whole := range []int{most, most + 1, most + mostDepth} {
				inner := whole - outer
				text := strings.Repeat(`{"inner":`, outer-1) + `{"` + member + `":` + strings.Repeat("[", inner) + strings.Repeat("]", inner) + strings.Repeat("}", outer)
				want := &nested{}
				bad := utiljson.Unmarshal([]byte(text), want)
				_, err := d.Decode(wire.JSON, []byte(text))
				assert.Equal(t, bad == nil, err == nil, "%s, %d in %d: %v, %v", member, inner, outer, bad, err)
			}
		}
	}
}
