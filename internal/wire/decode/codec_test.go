package decode

import (
	gojson "encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestTypesThatAreNoStructs(t *testing.T) {
	_, err := For[corev1.Pod](Options{})
	assert.ErrorIs(t, err, ErrNoStruct)
	_, err = For[*map[string]any](Options{})
	assert.ErrorIs(t, err, ErrNoStruct)
	_, err = For[metav1.Object](Options{})
	assert.ErrorIs(t, err, ErrNoStruct)
}

func TestProtobufNeedsGeneratedCode(t *testing.T) {
	codec, err := For[*foo](Options{})
	require.NoError(t, err)
	assert.False(t, codec.Protobuf())
	object, err := codec.NewDecoder().Decode(wire.Protobuf, nil)
	assert.ErrorIs(t, err, ErrNoProtobuf)
	assert.Nil(t, object)

	pods, err := For[*corev1.Pod](Options{})
	require.NoError(t, err)
	assert.True(t, pods.Protobuf())
	pod, err := pods.NewDecoder().Decode(wire.Protobuf, []byte{0xff})
	assert.Error(t, err)
	assert.Nil(t, pod)
}

func TestUnknownMembersAreReported(t *testing.T) {
	var reported []error
	codec, err := For[*foo](Options{ReportUnknown: func(err error) { reported = append(reported, err) }})
	require.NoError(t, err)
	d := codec.NewDecoder()
	object, err := d.Decode(wire.JSON, []byte(`{"untagged":1,"spec":{"base":{"x":1},"int":5}}`))
	require.NoError(t, err)
	assert.Equal(t, 5, object.Spec.Int)
	require.Len(t, reported, 1)
	assert.ErrorIs(t, reported[0], json.ErrUnknownName)
	assert.ErrorContains(t, reported[0], "untagged")

	_, err = d.Decode(wire.JSON, []byte(`{"spec":{"int":6}}`))
	require.NoError(t, err)
	_, err = d.Decode(wire.JSON, []byte(`{"spec":{"int":"x"}}`))
	require.Error(t, err)
	assert.Len(t, reported, 1)
}

// A type with tags that the library refuses is read by sigs.k8s.io/json, which reports as well.
func TestUnknownMembersOfOddTypesAreReported(t *testing.T) {
	var reported []error
	codec, err := For[*quoted](Options{ReportUnknown: func(err error) { reported = append(reported, err) }})
	require.NoError(t, err)
	require.True(t, codec.shape.odd)
	d := codec.NewDecoder()
	object, err := d.Decode(wire.JSON, []byte(`{"n":"5","other":1,"third":2}`))
	require.NoError(t, err)
	assert.Equal(t, 5, object.N)
	require.Len(t, reported, 1)
	assert.ErrorContains(t, reported[0], "other")
	_, err = d.Decode(wire.JSON, []byte(`{"n":"6"}`))
	require.NoError(t, err)
	_, err = d.Decode(wire.JSON, []byte(`{"n":{}}`))
	require.Error(t, err)
	assert.Len(t, reported, 1)
}

type (
	// quoted and the others have tags or types that the library takes for something else.
	quoted struct {
		N int `json:"n,string"`
	}
	folding struct {
		Name string `json:"name,case:ignore"`
	}
	named struct {
		A string `json:"'a'"`
	}
	fallback struct {
		Rest map[string]int `json:",embed"`
	}
	// comma has tags that the library refuses.
	comma struct {
		//lint:ignore SA5008 the tag is what is tested
		Name string `json:"-,"`
		//lint:ignore SA5008 the tag is what is tested
		A []int `json:"a,"`
	}
	timed struct {
		Times map[time.Time]int `json:"times"`
	}
)

func TestOddTypesAreDecodedByTheIncumbent(t *testing.T) {
	for _, data := range []string{
		`{"n":"5","name":"a","Name":"b","a":"c","'a'":"d","Rest":{"x":1},"x":2,"rest":3}`, `{"n":5}`, `{"n":null,"a":1}`, `{}`,
		`{"-":"x","a":[1,2]}`, `{"-":"\u0041","a":[1.5]}`, `{"a":[1e1]}`, `{"-":[1],"a":["x"]}`, `{"times":{"2024-01-02T03:04:05Z":1}}`, `{"times":{"\u0032024-01-02T03:04:05Z":1}}`,
	} {
		compareOdd[*quoted](t, data)
		compareOdd[*folding](t, data)
		compareOdd[*named](t, data)
		compareOdd[*fallback](t, data)
		compareOdd[*comma](t, data)
		compareOdd[*timed](t, data)
	}
}

func compareOdd[T any](t *testing.T, data string) {
	codec, err := For[T](Options{})
	require.NoError(t, err)
	require.True(t, codec.shape.odd)
	d := codec.NewDecoder()
	want := reflect.New(d.codec.elem).Interface()
	bad := utiljson.Unmarshal([]byte(data), want)
	got, err := d.Decode(wire.JSON, []byte(data))
	assert.Equal(t, bad, err)
	if bad == nil {
		assert.Equal(t, want, any(got))
	}
}

func withContainers(n int) []byte {
	pod := &corev1.Pod{}
	for i := range n {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("container-", i), Env: []corev1.EnvVar{{Name: fmt.Sprint("N", i)}}})
	}
	text, err := gojson.Marshal(pod)
	if err != nil {
		panic(err)
	}
	return text
}

func TestSlicesOfLargeElementsHaveNothingToSpare(t *testing.T) {
	for name, opts := range map[string][]Options{"sharing": nil, "plain": {Options{WithoutInterning: true}}} {
		t.Run(name, func(t *testing.T) {
			codec, err := For[*corev1.Pod](only(opts))
			require.NoError(t, err)
			d := codec.NewDecoder()
			var earlier []*corev1.Pod
			sizes := []int{3, 1, 5, 2, 100, 3, 5}
			for _, n := range sizes {
				pod, err := d.Decode(wire.JSON, withContainers(n))
				require.NoError(t, err)
				assert.Len(t, pod.Spec.Containers, n)
				assert.Equal(t, n, cap(pod.Spec.Containers), "capacity")
				earlier = append(earlier, pod)
			}
			for i, n := range sizes {
				var want corev1.Pod
				require.NoError(t, utiljson.Unmarshal(withContainers(n), &want))
				assert.Equal(t, &want, earlier[i], "later pods are in other memory")
			}
		})
	}
}

func TestSlicesThatAreUnusual(t *testing.T) {
	codec, err := For[*corev1.Pod](Options{})
	require.NoError(t, err)
	d := codec.NewDecoder()
	good := withContainers(2)
	for _, text := range []string{
		`{"spec":{"containers":[]}}`,
		`{"spec":{"containers":null}}`,
		`{"spec":{"containers":[null,{"name":"a"},null]}}`,
		`{"spec":{"containers":[{"name":"a","image":"i"},{"name":"b","image":"j"}],"containers":[{"name":"c"}]}}`,
		`{"spec":{"containers":[{"name":"a","env":[{"name":"x","value":"y"}],"env":[{"name":"z"},{"value":"w"}]}]}}`,
		`{"spec":{"containers":[{"name":"a"},{"name":7}]}}`,
		`{"spec":{"containers":{"name":"a"}}}`,
		`{"spec":{"containers":[{"name":"a"},`,
	} {
		var want corev1.Pod
		wrong := utiljson.Unmarshal([]byte(text), &want)
		got, err := d.Decode(wire.JSON, []byte(text))
		assert.Equal(t, wrong == nil, err == nil, "%s: %v", text, err)
		if err == nil {
			assert.Equal(t, &want, got, text)
		}
		again, err := d.Decode(wire.JSON, good)
		require.NoError(t, err)
		assert.Equal(t, 2, cap(again.Spec.Containers))
		assert.Empty(t, again.Spec.Containers[0].Image, "nothing is left of %s", text)
	}
}

// nested has the same slice inside its elements.
type nested struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Conditions        []metav1.Condition      `json:"conditions"`
	Inner             *nested                 `json:"inner"`
	Parts             []corev1.Container      `json:"parts"`
	Own               map[string][]nestedPart `json:"own"`
}

type nestedPart struct {
	Parts []corev1.Container `json:"parts"`
}

func TestSlicesInOneAnother(t *testing.T) {
	codec, err := For[*nested](Options{})
	require.NoError(t, err)
	d := codec.NewDecoder()
	text := []byte(`{"conditions":[{"type":"a"}],"inner":{"conditions":[{"type":"b"},{"type":"c"},{"type":"d"}],"parts":[{"name":"p"}]},"own":{"x":[{"parts":[{"name":"q"},{"name":"r"}]}]},"parts":[{"name":"s"}]}`)
	for range 3 {
		var want nested
		require.NoError(t, utiljson.Unmarshal(text, &want))
		got, err := d.Decode(wire.JSON, text)
		require.NoError(t, err)
		assert.Equal(t, &want, got)
		assert.Equal(t, 3, cap(got.Inner.Conditions))
	}
}

// dashed has a tag that encoding/json takes for a name, and the library for a mistake.
type dashed struct {
	metav1.ObjectMeta `json:"metadata"`
	//lint:ignore SA5008 the tag is what is tested
	Dash string `json:"-,"`
}

func TestTagsThatTheLibraryRefusesDoNotTurnSharingOff(t *testing.T) {
	d := decoderOf[*dashed](t)
	var last *dashed
	for range 3 {
		object, err := decodes(t, d, wire.JSON, []byte(`{"metadata":{"name":"a","ownerReferences":[{"uid":"u"}]},"-":"x"}`))
		require.NoError(t, err)
		assert.Equal(t, "a x", object.Name+" "+object.Dash)
		last = object
	}
	again, err := decodes(t, d, wire.JSON, []byte(`{"metadata":{"name":"b","ownerReferences":[{"uid":"u"}]},"-":"\u0079"}`))
	require.NoError(t, err)
	assert.Equal(t, "b y", again.Name+" "+again.Dash)
	assert.Same(t, &last.OwnerReferences[0], &again.OwnerReferences[0])
}

// keepsJSON and keepsText keep what they are given, as their contracts forbid.
type (
	keepsJSON struct{ raw []byte }
	keepsText struct{ raw []byte }
	keepsKey  string
)

func (k *keepsJSON) UnmarshalJSON(b []byte) error { k.raw = b; return nil }

func (k *keepsText) UnmarshalText(b []byte) error { k.raw = b; return nil }

var lastKey []byte

func (k *keepsKey) UnmarshalText(b []byte) error { *k, lastKey = keepsKey(b), b; return nil }

type keeper struct {
	metav1.ObjectMeta `json:"metadata"`
	Field             keepsJSON            `json:"field"`
	Pointer           *keepsJSON           `json:"pointer"`
	Map               map[string]keepsJSON `json:"map"`
	List              []keepsJSON          `json:"list"`
	Text              keepsText            `json:"text"`
	Raw               gojson.RawMessage    `json:"raw"`
}

func (k *keeper) String() string {
	return fmt.Sprintf("%s %s %s %s %s %s %s", k.Labels["a"], k.Field.raw, k.Pointer.raw, k.Map["k"].raw, k.List, k.Text.raw, k.Raw)
}

type oddKeeper struct {
	N      int `json:"n,string"`
	keeper `json:",inline"`
}

type keyKeeper struct {
	Keys map[keepsKey]int `json:"keys"`
}

func TestMethodsMayKeepTheBytesTheyAreGiven(t *testing.T) {
	const quick = `{"metadata":{"labels":{"a":"b"}},"field":"text","pointer":{"x":1},"map":{"k":[1,2]},"list":["q",5],"text":"t","raw":[3]}`
	const want = `b "text" {"x":1} [1,2] [{"q"} {5}] t [3]`
	for name, opts := range map[string][]Options{"sharing": nil, "plain": {Options{WithoutInterning: true}}, "sharing what keeps": {Options{Also: []reflect.Type{reflect.TypeFor[keepsJSON](), reflect.TypeFor[[]keepsJSON]()}}}} {
		ours, odd, keys := decoderOf[*keeper](t, opts...), decoderOf[*oddKeeper](t, opts...), decoderOf[*keyKeeper](t, opts...)
		for range 3 {
			for _, text := range []string{quick, " " + quick, `{"n":"1", ` + quick[1:]} {
				object, err := decodes(t, ours, wire.JSON, []byte(text))
				require.NoError(t, err)
				assert.Equal(t, want, object.String(), name)
				other, err := decodes(t, odd, wire.JSON, []byte(text))
				require.NoError(t, err)
				assert.Equal(t, want, other.keeper.String(), name)
			}
			_, err := decodes(t, keys, wire.JSON, []byte(`{"keys":{"key":1}}`))
			require.NoError(t, err)
			assert.Equal(t, "key", string(lastKey), name)
		}
	}
}

// keepsMessage keeps what it is given, and has a part that is shared.
type keepsMessage struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	raw               []byte
}

func (k *keepsMessage) Unmarshal(b []byte) error {
	k.raw = b
	f, err := wire.NextField(b)
	if err != nil {
		return err
	}
	return k.ObjectMeta.Unmarshal(f.Value)
}

func TestUnmarshalMayKeepTheBytesItIsGiven(t *testing.T) {
	d := decoderOf[*keepsMessage](t)
	meta, err := (&metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}).Marshal()
	require.NoError(t, err)
	other, err := (&metav1.ObjectMeta{Name: "N", Labels: map[string]string{"a": "b"}}).Marshal()
	require.NoError(t, err)
	for range 4 {
		object, err := decodes(t, d, wire.Protobuf, append([]byte{0x0a, byte(len(meta))}, meta...))
		require.NoError(t, err)
		before := string(object.raw)
		_, err = decodes(t, d, wire.Protobuf, append([]byte{0x0a, byte(len(other))}, other...))
		require.NoError(t, err)
		assert.Equal(t, before, string(object.raw))
		assert.Contains(t, before, "\x0a\x01n")
		assert.Equal(t, map[string]string{"a": "b"}, object.Labels)
	}
}

func TestKindsOfKubernetesAreNotCopiedFirst(t *testing.T) {
	assert.False(t, newErased(reflect.TypeFor[foo]()).codec.keeps[wire.JSON])
	eachKind(t, func(t *testing.T, kind reflect.Type, _ func() runtime.Object) {
		codec := newErased(kind).codec
		assert.False(t, codec.keeps[wire.JSON])
		assert.False(t, codec.keeps[wire.Protobuf])
	})
}
